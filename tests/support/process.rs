//! Child processes that end with the test.

use std::{
    fs::{self, File},
    net::TcpListener,
    os::unix::process::parent_id,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use super::wait::eventually;

/// A program that is killed on drop.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts a program with its output in a file.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).expect("the log can be written");
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file handle"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has exited.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the process is ours").is_some()
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot signal {}", self.pid());
        if name == "STOP" {
            // Its threads go on for a moment.
            let status = format!("/proc/{}/status", self.pid());
            let is_stopped =
                || fs::read_to_string(&status).is_ok_and(|status| status.contains("\nState:\tT"));
            eventually("it is stopped", || is_stopped().then_some(()));
        }
    }

    /// Waits until it exits, and returns its exit code.
    #[track_caller]
    pub fn wait(&mut self) -> Option<i32> {
        eventually("it ends", || self.child.try_wait().expect("the process is ours")).code()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Becomes true on SIGINT, SIGTERM, SIGHUP, or when the parent process exits. From then on these signals do not terminate the
/// test, so that it can stop its child processes first.
pub fn termination_requested() -> Arc<AtomicBool> {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let listen = async { kinds.map(|kind| signal(kind).expect("signals can be waited for")) };
    let [mut interrupt, mut terminate, mut hangup] = runtime.block_on(listen);
    let (ended, parent) = (Arc::new(AtomicBool::new(false)), parent_id());
    let flag = ended.clone();
    let orphaned = async move {
        while parent_id() == parent {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                () = orphaned => {}
            }
        });
        flag.store(true, Ordering::Relaxed);
    });
    ended
}

/// A port of the loopback interface that was just free. It is outside of the ephemeral range, so that no outgoing connection
/// of another test uses it before the program binds it.
pub fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut tried = std::iter::repeat_with(|| fastrand::u16(20_000..32_000)).take(1000);
    tried.find(is_free).expect("a free port")
}
