//! Making a machine: a directory that is there whole or not at all, then a keeper for it.
//!
//! Everything is laid out in a hidden directory, and renamed to the machine's name.
//! Until then, and when the keeper cannot be started, nothing was made and the call says so. A
//! second create of the same name finds the first machine. From the rename on the lock tells
//! what is going on: the maker holds it, then the keeper inherits it as its standard input.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ostler_actors::model::{Binding, MachinePhase, MachineView, Observation, Sighting};
use ostler_actors::ports::{CreateError, CreateOrder, MachineRef};
use rustix::fs::{FlockOperation, flock};
use tokio::process::{Child, Command};

use super::files::{self, Home, Label, Plan, Waiting, create_private};
use super::jit::Form;
use super::settings::DEFAULT_PATH;
use super::state::ProviderState;
use super::{MARK, jit, names, remove, ticket};
use crate::ports::AGENT_ENV;

/// How long a keeper may take to say that it is there.
const KEEPER_STARTS: Duration = Duration::from_secs(20);
/// How often it is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Tells what laying out a machine brought.
enum Laid {
    /// A machine of that name is there.
    Found(MachineRef),
    /// It is there now, and its keeper was started.
    Started(MachineRef, Child),
}

impl ProviderState {
    /// Makes a machine, or finds the one that was made under this order before.
    pub(super) async fn create(
        self: &Arc<Self>,
        order: CreateOrder,
    ) -> Result<MachineView, CreateError> {
        let machine = order.name.clone();
        let unanswered = |why| CreateError::Unanswered { machine: machine.clone(), why };
        let one_at_a_time = self.counting.lock().await;
        let state = Arc::clone(self);
        // In one piece: a caller that goes away must not leave half of it undone.
        let laid = self.disk.brief(move || state.lay_out(&order)).await.map_err(unanswered)?;
        drop(one_at_a_time);
        match laid {
            Ok(Laid::Found(target)) => self.show(target).await.map_err(unanswered),
            Ok(Laid::Started(target, child)) => {
                self.await_keeper(&target, child).await;
                self.show(target).await.map_err(unanswered)
            }
            Err(Mishap::Nothing(why)) => Err(CreateError::Refused { machine, why }),
            Err(Mishap::Perhaps(why)) => Err(unanswered(why)),
        }
    }

    async fn show(self: &Arc<Self>, target: MachineRef) -> Result<MachineView, String> {
        let state = Arc::clone(self);
        match self.disk.brief(move || state.read(&target)).await? {
            Sighting::Seen(view) => Ok(view),
            Sighting::Absent => Err("it was there and is gone".into()),
            Sighting::Unknown(why) => Err(why),
        }
    }

    /// Waits until the keeper is known or dead; what is then seen is the answer.
    async fn await_keeper(&self, target: &MachineRef, mut child: Child) {
        let Some(directory) = names::directory(&self.settings.work_dir, &target.name) else {
            return;
        };
        let keeper = Home::new(directory).keeper();
        let wait = async {
            loop {
                let keeper = keeper.clone();
                let known = self.disk.brief(move || keeper.exists()).await.unwrap_or(false);
                if known || !matches!(child.try_wait(), Ok(None)) {
                    break;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        drop(tokio::time::timeout(KEEPER_STARTS, wait).await);
        // The keeper lives on by itself; its exit code must be taken in the end.
        tokio::spawn(async move { drop(child.wait().await) });
    }

    fn lay_out(&self, order: &CreateOrder) -> Result<Laid, Mishap> {
        let nothing = |why: String| Mishap::Nothing(why);
        self.check().map_err(nothing)?;
        let Some(directory) = names::directory(&self.settings.work_dir, &order.name) else {
            return Err(nothing(
                "a name here consists of a-z, A-Z, digits, `-`, `_` and `.`".into(),
            ));
        };
        if let Some(found) = self.already_created(order)? {
            return Ok(Laid::Found(found));
        }
        self.check_room().map_err(nothing)?;
        let uid = uuid::Uuid::new_v4().to_string();
        let draft = self.settings.work_dir.join(format!(".new-{uid}"));
        let lock = self.draft(&draft, &directory, order, &uid).map_err(|why| {
            drop(remove::tree(&draft));
            nothing(why)
        })?;
        if let Err(error) = fs::rename(&draft, &directory) {
            drop(remove::tree(&draft));
            // Another create was faster.
            return match self.already_created(order)? {
                Some(found) => Ok(Laid::Found(found)),
                None => Err(nothing(format!("cannot make `{}`: {error}", directory.display()))),
            };
        }
        let target = MachineRef { name: order.name.clone(), uid: Some(uid) };
        match self.start_keeper(&directory, lock) {
            Ok(child) => Ok(Laid::Started(target, child)),
            Err(error) => {
                let program = self.settings.keeper.display();
                let why = format!("cannot start its keeper `{program}`: {error}");
                match remove::machine(&self.settings.work_dir, &Home::new(&directory), "unborn") {
                    Ok(()) => Err(nothing(why)),
                    Err(_) => Err(Mishap::Perhaps(why)),
                }
            }
        }
    }

    /// Finds a machine of this name: created for the same instance, or for another.
    fn already_created(&self, order: &CreateOrder) -> Result<Option<MachineRef>, Mishap> {
        let by_name = MachineRef { name: order.name.clone(), uid: None };
        let found = self.find(&by_name).map_err(|error| Mishap::Perhaps(error.to_string()))?;
        let Some(found) = found else { return Ok(None) };
        let (theirs, ours) = (&found.label.stamp, &order.stamp);
        if theirs.controller == ours.controller && theirs.instance == ours.instance {
            return Ok(Some(MachineRef { uid: Some(found.label.uid), ..by_name }));
        }
        Err(Mishap::Perhaps("a machine of that name exists and was made for another".into()))
    }

    fn check_room(&self) -> Result<(), String> {
        let Some(max) = self.settings.max_parallel else { return Ok(()) };
        let living = match self.list() {
            Observation::Complete(all) => {
                all.iter().filter(|it| !matches!(it.phase, MachinePhase::Over(_))).count()
            }
            Observation::Unusable(why) => return Err(why),
        };
        if living < max {
            return Ok(());
        }
        Err(format!("{living} machines live here and `max_parallel` = {max}"))
    }

    /// Lays out all of a machine but its keeper; returns the lock.
    fn draft(
        &self,
        draft: &Path,
        final_place: &Path,
        order: &CreateOrder,
        uid: &str,
    ) -> Result<File, String> {
        let told = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| format!("cannot write {what}: {error}")
        };
        let home = Home::new(draft);
        // Another user passes through to `work` and reads nothing else.
        let mode = if self.user.is_some() { 0o711 } else { 0o700 };
        fs::DirBuilder::new().mode(mode).create(draft).map_err(told("its directory"))?;
        let lock = create_private(&home.lock()).map_err(told("its lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| told("its lock")(error.into()))?;
        fs::DirBuilder::new().mode(0o700).create(home.work()).map_err(told("its directory"))?;
        if let Some(user) = self.user {
            user.give(&home.work()).map_err(told("its directory for the runner's user"))?;
        }
        let waiting = self.waiting(order)?;
        let secrets = match &waiting {
            Some(_) => {
                ticket::write(&home, &order.name, uid).map_err(told("its ticket"))?;
                Vec::new()
            }
            None => jit::lay_out(order.jit.as_ref(), self.form(), &home.work(), self.user)
                .map_err(|error| error.to_string())?,
        };
        let plan = Plan { waiting, ..self.plan(final_place, order, uid, secrets) };
        files::write(&home.plan(), &plan).map_err(told("its plan"))?;
        let label = Label {
            name: order.name.clone(),
            uid: uid.to_owned(),
            stamp: order.stamp.clone(),
            made_at: Timestamp::now(),
        };
        files::write(&home.stamp(), &label).map_err(told("its stamp"))?;
        Ok(lock)
    }

    fn form(&self) -> Form {
        Form::of(&self.settings.command)
    }

    /// Returns where a machine asks for work first, if it has no registration yet.
    fn waiting(&self, order: &CreateOrder) -> Result<Option<Waiting>, String> {
        if order.pool.binding != Binding::Late || order.jit.is_some() {
            return Ok(None);
        }
        let server = self.settings.public_url.clone().ok_or_else(|| {
            "late binding needs `http.public_url`: its machines ask there for work".to_owned()
        })?;
        let instance = order.stamp.instance.as_ref().map(ToString::to_string);
        let instance = instance.unwrap_or_else(|| order.name.to_string());
        Ok(Some(Waiting { server, instance, form: self.form() }))
    }

    fn plan(&self, place: &Path, order: &CreateOrder, uid: &str, secrets: Vec<String>) -> Plan {
        let settings = &self.settings;
        let work = Home::new(place).work();
        let jit_file = work.join(jit::FILE).display().to_string();
        let fill = |word: &String| word.replace(jit::PLACE, &jit_file);
        Plan {
            uid: uid.to_owned(),
            command: settings.command.iter().map(fill).collect(),
            runner_dir: settings.runner_dir.as_ref().map(|path| absolute(path)),
            env: self.environment(&work, order, uid),
            user: self.user,
            nice: settings.nice,
            limits: settings.limits,
            cgroup: self.cgroups,
            ready_line: settings.ready_line.clone(),
            secrets,
            waiting: None,
        }
    }

    /// Returns the whole environment of a runner: ours is not handed on.
    fn environment(&self, work: &Path, order: &CreateOrder, uid: &str) -> BTreeMap<String, String> {
        let home = self.user_home.clone().unwrap_or_else(|| work.display().to_string());
        let mut env = BTreeMap::from([("PATH".to_owned(), DEFAULT_PATH.to_owned())]);
        env.insert("HOME".into(), home);
        env.extend(AGENT_ENV.map(|(name, value)| (name.to_owned(), value.to_owned())));
        env.extend(self.settings.env.clone());
        let of_pool = order.machine.extra.get("env").and_then(serde_json::Value::as_object);
        for (name, value) in of_pool.into_iter().flatten() {
            if let Some(text) = value.as_str() {
                env.insert(name.clone(), text.to_owned());
            }
        }
        env.insert(MARK.into(), uid.to_owned());
        env
    }

    fn start_keeper(&self, directory: &Path, lock: File) -> io::Result<Child> {
        Command::new(&self.settings.keeper)
            .arg0("ostler")
            .args(["keeper", "--dir"])
            .arg(directory)
            // The daemon's environment holds its secrets, and every process below could read it.
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(lock))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }
}

/// Tells what a failed create left.
enum Mishap {
    Nothing(String),
    Perhaps(String),
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}
