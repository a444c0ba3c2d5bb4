//! A wire between the store and its server that can be cut, or slow, exactly at a commit.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;

/// Says when the wire is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The server never hears of the commit.
    BeforeCommit,
    /// The server has committed, and its answer is lost.
    AfterCommit,
    /// It is not cut: the commit is on its way until it is let go.
    Held,
}

/// Is a socket that leads to the server's.
pub(crate) struct Wire {
    folder: TempDir,
    plan: Arc<Plan>,
}

/// Holds what the next commit will meet.
#[derive(Default)]
struct Plan {
    moment: Mutex<Option<Moment>>,
    go: Notify,
}

impl Wire {
    /// Lays a wire to a server's socket.
    pub(crate) fn to(server: PathBuf) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let name = server.file_name().expect("a socket has a name");
        let listener = UnixListener::bind(folder.path().join(name)).expect("a socket");
        let plan = Arc::new(Plan::default());
        let shared = Arc::clone(&plan);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server.clone(), Arc::clone(&shared)));
            }
        });
        Self { folder, plan }
    }

    /// Returns the folder that stands for the server's.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Says what the next commit will meet.
    pub(crate) fn cut_at(&self, moment: Moment) {
        self.plan.moment.lock().expect("no panic").replace(moment);
    }

    /// Tells whether a commit has met it.
    pub(crate) fn was_cut(&self) -> bool {
        self.plan.moment.lock().expect("no panic").is_none()
    }

    /// Lets a held commit go.
    pub(crate) fn let_go(&self) {
        self.plan.go.notify_one();
    }
}

async fn carry(mut client: UnixStream, server: PathBuf, plan: Arc<Plan>) {
    let Ok(mut server) = UnixStream::connect(server).await else { return };
    let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Some(sent) = read.ok().filter(|n| *n > 0).map(|n| &up[..n]) else { return };
                let commits = sent.windows(6).any(|word| word == b"commit");
                let moment = if commits { plan.moment.lock().expect("no panic").take() } else { None };
                if moment == Some(Moment::Held) {
                    plan.go.notified().await;
                }
                if moment == Some(Moment::BeforeCommit) || server.write_all(sent).await.is_err() {
                    return;
                }
                if moment == Some(Moment::AfterCommit) {
                    // Its answer says that it is done; it reaches no other reader.
                    let answered = server.read(&mut down).await;
                    assert!(answered.is_ok_and(|n| n > 0), "the server answers a commit");
                    return;
                }
            }
            read = server.read(&mut down) => {
                let Some(told) = read.ok().filter(|n| *n > 0).map(|n| &down[..n]) else { return };
                if client.write_all(told).await.is_err() {
                    return;
                }
            }
        }
    }
}
