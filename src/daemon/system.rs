//! The threads everything runs on: actors on the first, all calls to the outside on the others.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Runs work on an actix system over shared threads, to its end.
pub fn on_system<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("ostler-io")
        .build()
        .map(Arc::new)?;
    let system = {
        let threads = Arc::clone(&threads);
        actix_rt::System::with_tokio_rt(move || threads)
    };
    Ok(system.block_on(work))
}

/// Returns what says when to stop: at the first SIGTERM or SIGINT. The second ends the process.
pub fn stop_on_signal() -> io::Result<watch::Receiver<bool>> {
    let (say, stop) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if say.send_replace(true) {
                tracing::error!("asked to stop twice: stopping at once; no machine is touched");
                exit_at_once();
            }
        }
    });
    Ok(stop)
}

#[expect(clippy::exit, reason = "an operator who asks twice does not want to wait any more")]
fn exit_at_once() -> ! {
    std::process::exit(130)
}
