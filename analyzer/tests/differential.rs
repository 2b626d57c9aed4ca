//! The usual suspects against the evidence, in whole sentences: what a naive observer concludes from an exit code, a claim or a
//! lookalike, and what the evidence allows.

mod scene;

use linchpin_analyzer::Query;
use linchpin_analyzer::report::diagnosis::{Ruled, Ruling};

/// A hundred seconds of `docker:a` under the eyes of docker, the kernel log and the cgroups' counters.
fn all(lines: &str) -> Vec<Ruling> {
    let watches = "0 host: watch_started source=\"kernel_log\"\n0 host: watch_started source=cgroup";
    rulings(&format!("{watches}\n{lines}"))
}

fn rulings(lines: &str) -> Vec<Ruling> {
    let detail = scene::ledger(&scene::watched(lines)).process(None, "docker:a", Query::default()).unwrap();
    detail.differential.expect("it restarted").rulings
}

#[track_caller]
fn check(rulings: &[Ruling], suspicion: &str, ruled: Ruled, sentence: &str) {
    let r = rulings.iter().find(|r| r.suspicion == suspicion).unwrap();
    assert_eq!((r.ruled, r.sentence.as_str()), (ruled, sentence));
}

/// Two lives that end as told, each up again half a second later.
fn twice(how: &str) -> String {
    [10, 50]
        .map(|t| {
            format!(
                "{t} docker:a exited instance=i1 {how}\n{t}.5 docker:a started instance=i1\n{t}.9 docker:a ready instance=i1 by=listen"
            )
        })
        .join("\n")
}

#[test]
fn not_a_segfault_and_not_its_own_ceiling() {
    let memory = "5 docker:a described instance=i1 memory_limit_bytes=4294967296\n6 docker:a memory current_bytes=593494016";
    let r = all(&format!("{memory}\n{}", twice("exit_code=0")));
    check(&r, "segfault", Ruled::Out, "not a segfault: no kernel record, exit code 0");
    check(
        &r,
        "own memory ceiling",
        Ruled::Out,
        "not an OOM kill of its own: oom_kill 0 at all 2 restarts, 566 MiB used of 4 GiB",
    );
    check(
        &r,
        "host out of memory",
        Ruled::Out,
        "not the host's memory: the kernel log has no such kill at all 2 restarts",
    );
    check(
        &r,
        "exit code",
        Ruled::Out,
        "no failure by its exit code: 0 at all 2 restarts (it ended by itself and reported no error)",
    );
    check(&r, "operator", Ruled::Out, "not an operator: nobody asked for any of 2 restarts");
    check(&r, "health check", Ruled::Out, "not a health check: none failed shortly before any of 2 restarts");
    check(
        &r,
        "deploy",
        Ruled::Out,
        "not a deploy: no other container and no other image took its place at any of 2 restarts",
    );
    check(&r, "another subject", Ruled::Open, "open: nothing else died while it was watched");
    check(&r, "version", Ruled::Open, "open: only one image was seen to restart (a:1: 2)");
}

#[test]
fn what_nobody_watched_stays_open() {
    let r = rulings(&twice("exit_code=0"));
    check(&r, "segfault", Ruled::Open, "open: the kernel log was not watched during all 2 restarts");
    check(
        &r,
        "own memory ceiling",
        Ruled::Open,
        "open: the kernel's word on memory (its log, the cgroup's counters) was not watched during all 2 restarts",
    );
    // Watched from the second restart on.
    let r = rulings(&format!("20 host: watch_started source=\"kernel_log\"\n{}", twice("exit_code=0")));
    check(&r, "segfault", Ruled::Open, "open: the kernel log was not watched during 1 of 2 restarts");
    check(
        &r,
        "dns",
        Ruled::Open,
        "open: nobody is known to hear its lookups (they are heard for containers that look like proxies, or that the \
         configuration names)",
    );
}

#[test]
fn an_abort_as_process_one_is_no_memory_fault() {
    let one =
        "9.999 docker:a segfault pid=10 process=proxy detail=general_protection_fault_ip:7f_in_libc.so.6";
    let r = all(&format!("{one}\n{}", twice("exit_code=139")));
    check(
        &r,
        "segfault",
        Ruled::Open,
        "open: exit code 139 says SIGSEGV at 1 of 2 restarts, and the kernel log, which was watched, has no record of that; 1 of 2 \
         restarts were aborts by its record",
    );
    let trap = format!("{one}\n{}", one.replace("9.999", "49.999").replace("pid=10", "pid=11"));
    let r = all(&format!("{trap}\n{}", twice("exit_code=139")));
    check(
        &r,
        "segfault",
        Ruled::Out,
        "not a segfault: at all 2 restarts the kernel's record is a general protection fault, which is how an abort (a panic, \
         an assertion) ends a container's first process; exit code 139",
    );
    check(
        &r,
        "exit code",
        Ruled::Open,
        "open: the exit code does not say who ended it: 139 at all 2 restarts (SIGSEGV, or an abort of a container's first process)",
    );
    // A real fault, and one that the log should have and has not.
    let real = "9.999 docker:a segfault pid=10 process=proxy detail=segfault_at_0";
    let r = all(&format!("{real}\n{}", twice("exit_code=139")));
    check(&r, "segfault", Ruled::In, "a segfault: the kernel log has a record at 1 of 2 restarts");
    let r = all(&twice("exit_code=139"));
    check(
        &r,
        "segfault",
        Ruled::Open,
        "open: exit code 139 says SIGSEGV at all 2 restarts, and the kernel log, which was watched, has no record of that",
    );
}

#[test]
fn any_sigkill_is_137_and_a_claim_is_no_proof() {
    let r = all(&twice("exit_code=137 oom_killed=true"));
    check(
        &r,
        "own memory ceiling",
        Ruled::Out,
        "not an OOM kill of its own: oom_kill 0 at all 2 restarts; the runtime's claim of OOM at all 2 restarts has no kernel record",
    );
    check(
        &r,
        "exit code",
        Ruled::Open,
        "open: the exit code does not say who ended it: 137 at all 2 restarts (SIGKILL, from anyone: only the kernel's record tells \
         an OOM kill)",
    );
}

#[test]
fn kills_come_with_any_exit_code() {
    for code in [0, 1, 128, 137, 143] {
        let kills = [10, 50].map(|t| {
            format!(
                "{}.99 docker:a oom_kill pid=10 by=kernel_log scope=memcg limit_bytes=536870912 process=java",
                t - 1
            )
        });
        let r = all(&format!("{}\n{}", kills.join("\n"), twice(&format!("exit_code={code}"))));
        check(
            &r,
            "own memory ceiling",
            Ruled::In,
            "killed at its own limit of 512 MiB: all 2 restarts have the kernel's record",
        );
    }
}

#[test]
fn a_childs_kill_with_exit_0_is_no_death_of_it() {
    let child = "30 docker:a oom_kill pid=77 by=kernel_log scope=memcg limit_bytes=536870912 process=worker";
    let r = all(&format!("{child}\n{}", twice("exit_code=0 oom_killed=true")));
    check(
        &r,
        "own memory ceiling",
        Ruled::Out,
        "not an OOM kill of its own: the kernel has no record of one at all 2 restarts, 512 MiB used of 512 MiB; the runtime's claim of OOM at all 2 \
         restarts has no kernel record; 1 OOM kill of a process in it ended no life of it",
    );
}

#[test]
fn codes_of_the_program_and_of_a_daemon() {
    check(
        &all(&twice("exit_code=1")),
        "exit code",
        Ruled::In,
        "the program reported a failure: 1 at all 2 restarts (the program's own)",
    );
    check(
        &all(&twice("exit_code=255")),
        "exit code",
        Ruled::Open,
        "open: the exit code does not say who ended it: 255 at all 2 restarts (its own, or what a restarted daemon writes for want of \
         a better)",
    );
    check(&all(&twice("")), "segfault", Ruled::Out, "not a segfault: no kernel record, no exit code told");
}

#[test]
fn five_newer_versions_carry_the_same_fault() {
    let lives = [10, 20, 30]
        .map(|t| {
            format!(
                "{} docker:a described instance=i{t} image=proxy:{t}\n{t} docker:a exited instance=i1 exit_code=0\n\
                 {t}.5 docker:a started instance=i1",
                t - 2
            )
        })
        .join("\n");
    check(
        &all(&lives),
        "version",
        Ruled::Out,
        "not one version's fault: 3 images restarted (proxy:10: 1, proxy:20: 1, proxy:30: 1)",
    );
}

#[test]
fn an_operators_restart_is_told_apart() {
    let asked = "70 docker:a exited instance=i1 exit_code=143 by_operator=true action=restart\n71 docker:a started instance=i1";
    check(
        &all(&format!("{}\n{asked}", twice("exit_code=0"))),
        "operator",
        Ruled::Out,
        "not an operator: nobody asked for any of 2 restarts; 1 restart asked for (restart) is told apart from them",
    );
}

#[test]
fn a_name_before_a_restart() {
    let ok = "80 docker:a dns_failure name=b outcome=nxdomain by=capture";
    check(
        &all(&format!("60 host: watch_started source=dns\n{}\n{ok}", twice("exit_code=0"))),
        "dns",
        Ruled::Open,
        "open: what it looks up (its packets, its log) was not watched during all 2 restarts",
    );
    let ok = format!("0 host: watch_started source=dns\n{ok}");
    check(
        &all(&format!("{}\n{ok}", twice("exit_code=0"))),
        "dns",
        Ruled::Out,
        "not a name: of its lookups that failed none did in the 5 s before any of 2 restarts",
    );
    let before = "9.5 docker:a dns_failure name=b outcome=nxdomain by=capture";
    check(
        &all(&format!("{before}\n{}", twice("exit_code=0"))),
        "dns",
        Ruled::Open,
        "open: a lookup failed in the 5 s before 1 of 2 restarts, after no kill that is linked",
    );
}

#[test]
fn a_host_that_ran_out_is_quoted_and_is_not_its_own_ceiling() {
    let kills = [10, 50]
        .map(|t| format!("{}.99 docker:a oom_kill pid={t} by=kernel scope=host process=java", t - 1))
        .join("\n");
    let r = all(&format!("{kills}\n{}", twice("exit_code=137")));
    check(
        &r,
        "own memory ceiling",
        Ruled::Out,
        "not an OOM kill of its own: the kernel has no record of one at all 2 restarts",
    );
    check(&r, "host out of memory", Ruled::In, "the host ran out of memory and this paid: all 2 restarts");
    let quoted = &r.iter().find(|r| r.suspicion == "host out of memory").unwrap().evidence;
    assert_eq!(quoted.len(), 2);
    assert!(quoted[0].text.contains("the host ran out of memory"), "{quoted:?}");
}
