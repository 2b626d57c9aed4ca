//! The kernel log's parser on samples of many kernels and distributions, whole and in noise, and the source on a recorded
//! log. The samples are facts seen in public reports, with personal details replaced; the fixtures were recorded.

use linchpin_collector::sources::kernel_log::oom::{Kill, Scope};
use linchpin_collector::sources::kernel_log::parse::{Decoder, Record};
use proptest::prelude::*;

const A: &str = "00748bf4e957f82c239a1db8a88579059b7d40c7b5fbd3f43617d31d3f646f12";

fn decode(text: impl AsRef<[u8]>) -> Vec<Record> {
    let (mut decoder, mut out) = (Decoder::default(), Vec::new());
    decoder.feed(text.as_ref(), &mut out);
    decoder.finish(&mut out);
    out
}

fn kills(text: impl AsRef<[u8]>) -> Vec<Kill> {
    let pick = |r| if let Record::Kill(k) = r { Some(k) } else { None };
    decode(text).into_iter().filter_map(pick).collect()
}

fn one(text: impl AsRef<[u8]>) -> Kill {
    let mut all = kills(text);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

#[test]
fn the_sacrificed_child_is_the_victim() {
    let k = one("[1.0] java invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=0\n\
         [1.1] Task in /docker/a killed as a result of limit of /docker\n\
         [1.2] memory: usage 524288kB, limit 524288kB, failcnt 88\n\
         [1.3] Memory cgroup out of memory: Kill process 24572 (java) score 0 or sacrifice child\n\
         [1.4] Killed process 28438 (java) total-vm:20255636kB, anon-rss:466160kB, file-rss:13684kB\n");
    assert_eq!((k.pid, &*k.process, k.rss_bytes), (28438, "java", Some((466_160 + 13_684) * 1024)));
    assert_eq!((k.cgroup.as_deref(), k.limit_cgroup.as_deref()), (Some("/docker/a"), Some("/docker")));
    assert_eq!((k.scope, k.limit_bytes, k.group), (Some(Scope::Memcg), Some(512 << 20), false));
}

#[test]
fn of_three_ids_only_task_memcg_is_the_victims() {
    let k = one("[1.0] java invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0\n\
         [1.1] memory: usage 65536kB, limit 65536kB, failcnt 1\n\
         [1.2] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=asker,mems_allowed=0-2,4,oom_memcg=/kubepods/podx,task_memcg=/kubepods/podx/victim,task=a,b (c),pid=77,uid=1000\n\
         [1.3] Memory cgroup out of memory: Killed process 77 (a,b (c)) total-vm:10kB, anon-rss:4kB, file-rss:4kB, shmem-rss:2kB, UID:1000 pgtables:72kB oom_score_adj:0\n");
    assert_eq!(k.cgroup.as_deref(), Some("/kubepods/podx/victim"));
    assert_eq!(k.limit_cgroup.as_deref(), Some("/kubepods/podx"));
    assert_eq!((&*k.process, k.rss_bytes, k.limit_bytes), ("a,b (c)", Some(10 * 1024), Some(64 << 20)));
}

#[test]
fn the_host_ran_out_and_a_container_paid() {
    let k = one(format!(
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=aegis,mems_allowed=0,global_oom,task_memcg=/system.slice/docker-{A}.scope,task=java,pid=7134,uid=1000\n\
         Out of memory: Killed process 7134 (java) total-vm:9kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1kB oom_score_adj:0\n"
    ));
    assert_eq!((k.scope, k.limit_bytes), (Some(Scope::Host), None));
    assert_eq!(k.cgroup.unwrap(), format!("/system.slice/docker-{A}.scope"));
}

#[test]
fn a_group_is_one_death() {
    let victim = |t: &str, pid: u32, name: &str| {
        format!(
            "[{t}] Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:10kB, anon-rss:4kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:7kB oom_score_adj:0\n"
        )
    };
    let text = [
        "[5.000001] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/x,task_memcg=/x/leaf,task=w,pid=10,uid=0\n".to_string(),
        victim("5.000002", 10, "w"),
        "[5.000003] Tasks in /x are going to be killed due to memory.oom.group set\n".into(),
        victim("5.000004", 10, "w"),
        victim("5.000005", 11, "w"),
        victim("5.000006", 12, "master"),
        // Later, and of another: a death of its own.
        victim("9.000000", 99, "other"),
    ]
    .concat();
    let all = kills(text);
    assert_eq!(all.len(), 2, "{all:#?}");
    assert_eq!(
        (all[0].pid, all[0].group, all[0].members, all[0].cgroup.as_deref()),
        (10, true, 3, Some("/x/leaf"))
    );
    assert_eq!((all[1].pid, all[1].group, all[1].cgroup.as_deref()), (99, false, None));
}

#[test]
fn victim_lines_of_many_versions() {
    type Told<'a> = (&'a str, u64, &'a str, Option<u64>, Option<Scope>);
    let table: &[Told<'_>] = &[
        ("Killed process 77 (sh) vsz:1200kB, anon-rss:40kB, file-rss:8kB", 77, "sh", Some(48), None),
        (
            "Killed process 28438 (java) total-vm:20255636kB, anon-rss:466160kB, file-rss:13684kB",
            28438,
            "java",
            Some(479_844),
            None,
        ),
        (
            "Killed process 8642, UID 0, (python) total-vm:1kB, anon-rss:2kB, file-rss:3kB",
            8642,
            "python",
            Some(5),
            None,
        ),
        (
            "Killed process 3112 (java), UID 1000, total-vm:1kB, anon-rss:2kB, file-rss:3kB, shmem-rss:4kB",
            3112,
            "java",
            Some(9),
            None,
        ),
        (
            "Killed process 3112 (my (odd) app) total-vm:1kB, anon-rss:2kB, file-rss:3kB, shmem-rss:4kB",
            3112,
            "my (odd) app",
            Some(9),
            None,
        ),
        (
            "Killed process 5 (runc:[2:INIT]) total-vm:1kB, anon-rss:2kB, file-rss:3kB",
            5,
            "runc:[2:INIT]",
            Some(5),
            None,
        ),
        (
            "Killed process 5 (kworker/u8:2) total-vm:1kB, anon-rss:2kB, file-rss:3kB",
            5,
            "kworker/u8:2",
            Some(5),
            None,
        ),
        (
            "Killed process 5 (a) b::c () total-vm:1kB, anon-rss:2kB, file-rss:3kB",
            5,
            "a) b::c (",
            Some(5),
            None,
        ),
        (
            "Killed process 5 (a) total-vm:) total-vm:1kB, anon-rss:2kB, file-rss:3kB",
            5,
            "a) total-vm:",
            Some(5),
            None,
        ),
        ("Killed process 5 () total-vm:1kB, anon-rss:2kB, file-rss:3kB", 5, "", Some(5), None),
        ("Killed process 1234 (mysqld)", 1234, "mysqld", None, None),
        (
            "Out of memory: Killed process 9 (x) total-vm:1kB, anon-rss:2kB, file-rss:3kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:-999",
            9,
            "x",
            Some(5),
            Some(Scope::Host),
        ),
        (
            "Out of memory (oom_kill_allocating_task): Killed process 9 (x) total-vm:1kB, anon-rss:2kB, file-rss:3kB",
            9,
            "x",
            Some(5),
            Some(Scope::Host),
        ),
        (
            "Memory cgroup out of memory: Killed process 9 (x) total-vm:1kB, anon-rss:2kB, file-rss:3kB",
            9,
            "x",
            Some(5),
            Some(Scope::Memcg),
        ),
        (
            "Memory cgroup out of memory: Killed process 9 (x) total-vm:1kB, anon-rss:99999999999999999999kB, file-rss:3kB",
            9,
            "x",
            None,
            Some(Scope::Memcg),
        ),
    ];
    for (line, pid, name, rss_kb, scope) in table {
        let k = one(line);
        assert_eq!(
            (k.pid, &*k.process, k.rss_bytes, k.scope),
            (*pid, *name, rss_kb.map(|k| k * 1024), *scope),
            "{line}"
        );
        assert_eq!(k.cgroup, None);
    }
}

#[test]
fn what_is_no_kill() {
    for line in [
        "Out of memory and no killable processes...",
        "Memory cgroup out of memory: no killable processes",
        "oom_reaper: reaped process 28438 (java), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
        "Memory cgroup out of memory: Kill process 24572 (java) score 0 or sacrifice child",
        "java invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=0",
        &format!(
            "SLUB: Unable to allocate memory on node -1 (gfp=0x6000c0); cache: kmalloc-192(1153:{A}), object size: 192, slab_out_of_memory: 3"
        ),
        "<--- Last few GCs ---> FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
        "earlyoom: sending SIGTERM to process 4242 uid 1000 \"chrome\": badness 300",
        "Killed /user.slice/user-1000.slice due to memory pressure for /user.slice being 78.19% > 50.00%",
        "java.lang.OutOfMemoryError: Java heap space",
        "Dec  7 00:05:15 web-1 app[7]: Killed process 9 (x) total-vm:1kB, anon-rss:2kB, file-rss:3kB",
    ] {
        assert_eq!(kills(line), [], "{line}");
    }
}

#[test]
fn what_was_left_out_is_said() {
    let said = |line: &str| {
        decode(line)
            .into_iter()
            .find_map(|r| if let Record::Suppressed { by, count, .. } = r { Some((by, count)) } else { None })
    };
    assert_eq!(
        said("[1.5] oom_kill_process: 70 callbacks suppressed"),
        Some(("oom_kill_process".into(), 70))
    );
    assert_eq!(said("[1.5] show_signal_msg: 3 callbacks suppressed"), Some(("show_signal_msg".into(), 3)));
    assert_eq!(said("[1.5] net_ratelimit: 70 callbacks suppressed"), None);
}

#[test]
fn a_cut_line_is_said_and_not_guessed() {
    for line in [
        "[1.5] Memory cgroup out of memory: Killed process 77",
        "[1.5] Memory cgroup out of memory: Killed process java (77) total-vm:1kB",
        "[1.5] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allo",
    ] {
        assert!(matches!(&decode(line)[..], [Record::Unreadable { .. }]), "{line}");
    }
}

#[test]
fn in_a_storm_nothing_is_carried_but_by_pid() {
    // Two reports interleave, with their pids; a third victim has lost its report.
    let all = kills(
        "[1.00] a invoked oom-killer: x\n[1.01] b invoked oom-killer: x\n\
         [1.02] memory: usage 10kB, limit 10kB, failcnt 1\n\
         [1.03] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/b,task_memcg=/b,task=b,pid=2,uid=0\n\
         [1.04] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/a,task_memcg=/a,task=a,pid=1,uid=0\n\
         [1.05] Memory cgroup out of memory: Killed process 1 (a) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n\
         [1.06] Memory cgroup out of memory: Killed process 2 (b) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n\
         [1.07] Memory cgroup out of memory: Killed process 3 (c) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n",
    );
    let told: Vec<_> = all.iter().map(|k| (k.pid, k.cgroup.as_deref(), k.limit_bytes)).collect();
    assert_eq!(told, [(1, Some("/a"), None), (2, Some("/b"), None), (3, None, None)]);
    // Old kernels, whose lines carry no pid, interleaved: no cgroup is better than the wrong one.
    let all = kills(
        "[1.00] a invoked oom-killer: x\n[1.01] Task in /a killed as a result of limit of /a\n\
         [1.02] b invoked oom-killer: x\n[1.03] Task in /b killed as a result of limit of /b\n\
         [1.04] Killed process 2 (b) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n\
         [1.05] Killed process 1 (a) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n",
    );
    assert_eq!(all.iter().map(|k| (k.pid, k.cgroup.as_deref())).collect::<Vec<_>>(), [(2, None), (1, None)]);
    // The same, where the kernel names the printing thread.
    let all = kills(
        "[1.00][T1] a invoked oom-killer: x\n[1.01][T1] Task in /a killed as a result of limit of /a\n\
         [1.02][T2] b invoked oom-killer: x\n[1.03][T2] Task in /b killed as a result of limit of /b\n\
         [1.04][T2] Killed process 2 (b) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n\
         [1.05][T1] Killed process 1 (a) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n",
    );
    assert_eq!(
        all.iter().map(|k| (k.pid, k.cgroup.as_deref())).collect::<Vec<_>>(),
        [(2, Some("/b")), (1, Some("/a"))]
    );
}

#[test]
fn a_report_cut_short_does_not_poison_the_next() {
    let all = kills(
        "[1.00] a invoked oom-killer: x\n[1.01] Task in /a killed as a result of limit of /a\n\
         [60.00] b invoked oom-killer: x\n[60.01] Task in /b killed as a result of limit of /b\n\
         [60.02] Killed process 2 (b) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n",
    );
    assert_eq!(all.iter().map(|k| (k.pid, k.cgroup.as_deref())).collect::<Vec<_>>(), [(2, Some("/b"))]);
}

#[test]
fn a_kill_printed_twice_is_one() {
    let line =
        "[7.1] Memory cgroup out of memory: Killed process 9 (x) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n";
    assert_eq!(kills(line.repeat(2)).len(), 1);
    let later = line.replace("[7.1]", "[99.1]");
    assert_eq!(kills(format!("{line}{later}")).len(), 2);
}

#[test]
fn real_kills_of_a_6_18_kernel() {
    // Recorded: containers limited to 16 MiB; first the main process is killed, then a child of one that lives on.
    let all = kills(include_bytes!("fixtures/kernel_log/oom-6.18-cgroup1-container.kmsg"));
    let told: Vec<_> =
        all.iter().map(|k| (k.pid, &*k.process, k.seq, k.limit_bytes, k.scope, k.rss_bytes)).collect();
    let memcg = Some(Scope::Memcg);
    assert_eq!(
        told,
        [
            (16824, "tail", Some(1026), Some(16 << 20), memcg, Some(17_264 * 1024)),
            (16943, "tail", Some(1143), Some(16 << 20), memcg, Some(17_136 * 1024)),
        ]
    );
    assert_eq!(
        all[1].cgroup.as_deref(),
        Some("/docker/22c42cc6756374dca72fbe200f12a9e75b2499c10b648ef764ccb1d4a666347d")
    );
}

#[test]
fn real_faults_of_a_6_18_kernel() {
    // Recorded: a program with an awkward name writes to address 0, and aborts as process 1 of its container.
    let faults: Vec<_> = decode(include_bytes!("fixtures/kernel_log/faults-6.18.kmsg"))
        .into_iter()
        .filter_map(|r| if let Record::Fault(f) = r { Some(f) } else { None })
        .map(|f| (f.process, f.pid, f.detail.split(" ip").next().unwrap_or_default().to_string()))
        .collect();
    let name = "se] g (x".to_string();
    assert_eq!(
        faults,
        [
            (name.clone(), 549, "segfault at 0".to_string()),
            (name.clone(), 631, "general protection fault".to_string()),
            (name, 780, "segfault at 0".to_string()),
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn never_panics(pieces in prop::collection::vec(prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        prop::sample::select(vec![
            "oom-kill:constraint=", "CONSTRAINT_MEMCG", ",oom_memcg=", ",task_memcg=", ",task=", ",pid=", "7", ",uid=", "Killed process ", " (", ") total-vm:",
            "anon-rss:", "kB", "[1.5] ", "[T7]", "Tasks in ", " are going to be killed due to memory.oom.group set", "Task in ", " killed as a result of limit of ",
            " invoked oom-killer", "memory: usage ", "limit ", "]: segfault at ", "x[", "traps: ", "] trap ", "{\"MESSAGE\":[", "{\"MESSAGE\":\"", "\"}", "6,1,2,-;",
            "Dec  7 00:05:15 ", "kernel: ", "oom_kill_process: ", " callbacks suppressed", "\n", "\\x", "[Thu Dec  7 00:05:15 2017] ", "2017-12-07T00:05:15+01:00 ", "é",
        ]).prop_map(|s| s.as_bytes().to_vec()),
    ], 0..60), cut in 1usize..40) {
        let bytes = pieces.concat();
        let whole = decode(&bytes);
        let (mut decoder, mut out) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(cut) {
            decoder.feed(piece, &mut out);
        }
        decoder.finish(&mut out);
        // How the log is cut into pieces changes nothing.
        prop_assert_eq!(whole, out);
    }

    #[test]
    fn a_kill_is_found_in_noise(before in prop::collection::vec("[a-z :,;\\[\\]()=/{}\"0-9.]{0,60}", 0..20), after in prop::collection::vec("[a-z :,;\\[\\]()=/{}\"0-9.]{0,60}", 0..20),
        name in "[ -~]{1,15}", pid in 1u64..4_194_304) {
        let mut lines = before;
        lines.push(format!("[5.000001] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0-3,9,oom_memcg=/x,task_memcg=/docker/{A},task={name},pid={pid},uid=0"));
        lines.push(format!("[5.000002] Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:10kB, anon-rss:4kB, file-rss:4kB, shmem-rss:0kB, UID:0 pgtables:7kB oom_score_adj:0"));
        lines.extend(after);
        let k = one(lines.join("\n"));
        prop_assert_eq!((k.pid, k.process, k.cgroup), (pid, name, Some(format!("/docker/{A}"))));
    }
}
