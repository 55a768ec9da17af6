//! CPU time: the cost of work, independent of the load of the machine.

use std::{
    io::Read as _,
    process::{Command, Output, Stdio},
    time::Duration,
};

use procfs::process::{Process, Stat};

use super::wait::eventually;

/// The CPU time of this thread.
pub fn thread_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts it");
    Duration::from_nanos(text.split(' ').next().and_then(|field| field.parse().ok()).expect("a number"))
}

/// The least CPU time of three runs on this thread, with warm caches, and the result.
pub fn least_of_three<T>(mut work: impl FnMut() -> T) -> (Duration, T) {
    let mut run = || {
        let started = thread_time();
        let result = work();
        (thread_time().saturating_sub(started), result)
    };
    let runs = [run(), run(), run()];
    runs.into_iter().min_by_key(|(time, _)| *time).expect("three runs")
}

/// The CPU time of all threads of a process since its start, in ticks of 10 ms.
pub fn process_time(pid: u32) -> Duration {
    time_of(&stat(pid))
}

/// Runs a program; its output, and the CPU time of all its threads.
pub fn output_and_time(command: &mut Command) -> (Output, Duration) {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it can be run");
    let (mut out, mut err) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
    let errors = std::thread::spawn(move || {
        let mut stderr = Vec::new();
        err.read_to_end(&mut stderr).map(|_| stderr)
    });
    let mut stdout = Vec::new();
    out.read_to_end(&mut stdout).expect("its output");
    let stderr = errors.join().expect("no panic").expect("its errors");
    // A zombie keeps its times until its parent reaps it.
    let pid = child.id();
    let time =
        eventually("it ends", || Some(stat(pid)).filter(|stat| stat.state == 'Z').map(|stat| time_of(&stat)));
    let status = child.wait().expect("it is ours");
    (Output { status, stdout, stderr }, time)
}

fn stat(pid: u32) -> Stat {
    Process::new(pid.cast_signed()).and_then(|process| process.stat()).expect("it is there")
}

fn time_of(stat: &Stat) -> Duration {
    Duration::from_millis((stat.utime + stat.stime) * 1000 / procfs::ticks_per_second())
}
