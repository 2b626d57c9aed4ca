//! What runs inside the lab's containers: a listener that starts late, lives for a while and ends in a chosen way; a
//! supervisor that brings a dead listener back; a process that only holds a network namespace.
//!
//! `server --port P [--delay MS] [--life MS] [--code N] [--end exit|eat|abort] [--child-eats MS [--child-name NAME]] [--plan FILE]`:
//! listens on 0.0.0.0:P after the delay and ends after its life (for ever without one; also when FILE.end appears or SIGTERM
//! comes, then with code 0). `--end eat` allocates until the kernel ends it. With a plan, FILE holds a line `DELAY LIFE CODE`
//! for each start, counted in FILE.at; after the last line it lives on.
//!
//! `supervise --port P --life MS --gap MS --times N`: process 1 stays, its child listens, dies after its life and is back
//! after about the gap, N times.

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::process::{Command, exit};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Args, clock, fail};

struct Part {
    delay: u64,
    life: Option<u64>,
    code: u64,
}

/// A listener, and how it ends.
pub fn serve(args: &Args) {
    clock::heed_term();
    let port = args.number("port").unwrap_or_else(|| fail("server needs --port"));
    let part = part(args);
    sleep(part.delay);
    listen(port);
    let up = Instant::now();
    let mut child_due = args.number("child-eats");
    let end_file = args.text("plan").map(|f| format!("{f}.end"));
    loop {
        thread::sleep(Duration::from_millis(2));
        if clock::ending() {
            exit(0);
        }
        if end_file.as_ref().is_some_and(|f| std::fs::remove_file(f).is_ok()) {
            finish(args, part.code);
        }
        let lived = up.elapsed().as_millis() as u64;
        if child_due.is_some_and(|due| lived >= due) {
            child_due = None;
            let name = args.text("child-name").unwrap_or("eater").to_owned();
            thread::spawn(move || this_program(&["eat", "--name", &name]).status());
        }
        if part.life.is_some_and(|life| lived >= life) {
            finish(args, part.code);
        }
    }
}

fn part(args: &Args) -> Part {
    let given = Part {
        delay: args.number("delay").unwrap_or(0),
        life: args.number("life"),
        code: args.number("code").unwrap_or(0),
    };
    let Some(file) = args.text("plan") else { return given };
    let Ok(plan) = std::fs::read_to_string(file) else { return given };
    let counter = format!("{file}.at");
    let at: usize = std::fs::read_to_string(&counter).ok().and_then(|s| s.trim().parse().ok()).unwrap_or(0);
    if let Err(e) = std::fs::write(&counter, (at + 1).to_string()) {
        fail(&format!("{counter}: {e}"));
    }
    let Some(line) = plan.lines().nth(at) else { return given };
    let mut fields =
        line.split(' ').map(|f| f.parse::<u64>().unwrap_or_else(|_| fail(&format!("{file}: {line:?}"))));
    // A life of 0 is one without an end.
    let (delay, life, code) = (fields.next(), fields.next(), fields.next());
    Part { delay: delay.unwrap_or(0), life: life.filter(|l| *l > 0), code: code.unwrap_or(0) }
}

fn finish(args: &Args, code: u64) -> ! {
    match args.text("end") {
        Some("eat") => eat(args),
        Some("abort") => std::process::abort(),
        _ => exit(code as i32),
    }
}

/// Listens and accepts for ever on a thread of its own; every connection is closed at once.
fn listen(port: u64) {
    let listener =
        TcpListener::bind(("0.0.0.0", port as u16)).unwrap_or_else(|e| fail(&format!("port {port}: {e}")));
    // The prober connects a thousand times a second: the standard queue of 128 is full after a short stall.
    clock::lengthen_queue(listener.as_raw_fd());
    thread::spawn(move || {
        for connection in listener.incoming() {
            drop(connection);
        }
    });
}

/// Allocates and touches memory until the kernel has enough of it.
pub fn eat(args: &Args) -> ! {
    if let Some(name) = args.text("name") {
        let _ = std::fs::write("/proc/self/comm", name);
    }
    // The child shall be the victim, not its parent; raising one's own score needs no privilege.
    if std::process::id() != 1 {
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    }
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    loop {
        eaten.push(vec![0x5a; 4 << 20]);
    }
}

/// Process 1 that brings its listener back.
pub fn supervise(args: &Args) {
    clock::heed_term();
    let need = |name: &str| args.number(name).unwrap_or_else(|| fail(&format!("supervise needs --{name}")));
    let (port, life, gap, times) =
        (need("port").to_string(), need("life").to_string(), need("gap"), need("times"));
    for turn in 0..=times {
        let words = ["server", "--port", &port, "--life", &life, "--code", "9"];
        let words = if turn < times { &words[..] } else { &words[..3] };
        let mut child = this_program(words).spawn().unwrap_or_else(|e| fail(&format!("child: {e}")));
        loop {
            if clock::ending() {
                exit(0);
            }
            match child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                _ => break,
            }
        }
        sleep(gap);
    }
}

fn this_program(words: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(words);
    command
}

/// Holds a network namespace.
pub fn pause() {
    clock::heed_term();
    while !clock::ending() {
        thread::sleep(Duration::from_millis(200));
    }
}

fn sleep(ms: u64) {
    let until = Instant::now() + Duration::from_millis(ms);
    while Instant::now() < until && !clock::ending() {
        thread::sleep(until.saturating_duration_since(Instant::now()).min(Duration::from_millis(20)));
    }
}
