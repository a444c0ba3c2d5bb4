//! What is written on a pod later: whether a job may be on it.

use kube::api::{Patch, PatchParams};
use ostler_actors::ports::MachineRef;

use super::client::{CALL, within};
use super::protection::Protection;
use super::provider::Kubernetes;

impl Kubernetes {
    /// Writes on a pod whether a job may be on it, and which; one that is gone needs no marks.
    pub async fn mark(
        &self,
        machine: &MachineRef,
        protection: Protection,
        job: Option<&str>,
    ) -> Result<(), String> {
        let reached = self.state.cluster.reach().await.map_err(|why| why.to_string())?;
        let patch = protection.patch(machine.uid.as_deref(), job);
        let (pods, params) = (reached.pods(), PatchParams::default());
        match within(CALL, pods.patch(machine.name.as_str(), &params, &Patch::Merge(&patch))).await
        {
            Ok(_) => Ok(()),
            // Gone, or a successor of the same name: some servers call another uid invalid.
            Err(failure) if matches!(failure.code(), Some(404 | 409)) => Ok(()),
            Err(failure) if failure.to_string().contains("metadata.uid") => Ok(()),
            Err(failure) => Err(failure.to_string()),
        }
    }

    /// Takes the JIT config of a runner away that has connected.
    pub async fn forget_jit(&self, machine: &MachineRef) -> Result<(), String> {
        self.state.drop_secret(machine.name.as_str()).await.map_err(|why| why.to_string())
    }
}
