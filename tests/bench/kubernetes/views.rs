//! What a watch over many pods costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::PostParams;
use ostler_actors::model::{MachineName, MachineView};
use ostler_actors::ports::{Inventory as _, MachineSink};
use tokio::time::Instant;

use super::support::cluster::Place;
use super::{cpu, played, resident};

/// Lets a watch see many pods, and prints what that costs.
pub(crate) async fn measure(place: &Arc<Place>, pods: usize) {
    let body = played::template(place).await;
    let (api, body) = (&place.pods(), &body);
    let make = |at: usize| async move {
        let mut pod = body.clone();
        pod.metadata.name = Some(format!("v{at}"));
        api.create(&PostParams::default(), &pod).await.unwrap();
    };
    futures_util::stream::iter(0..pods).for_each_concurrent(50, make).await;
    let (ear, provider, me) = (Arc::new(Ear::default()), played::open(place), std::process::id());
    let (began, before, spent) = (Instant::now(), resident(me), cpu(me));
    let watching = provider.watch(Arc::<Ear>::clone(&ear));
    while ear.0.load(Ordering::Relaxed) < pods {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!(
        "kubernetes: {pods} pods seen in {:.1?}, {:.1} s of processor time, {} MiB more resident (goal: 64 MiB)",
        began.elapsed(),
        cpu(me).saturating_sub(spent).as_secs_f64(),
        resident(me).saturating_sub(before) >> 10,
    );
    drop(watching);
}

/// Counts what it is told.
#[derive(Default)]
struct Ear(AtomicUsize);

impl MachineSink for Ear {
    fn seen(&self, _: MachineView) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn missed(&self, _: MachineName) {}
}
