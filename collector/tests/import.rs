//! What text becomes when it is imported: each trap of the kernel log in each form of prefix, old and new shapes of engine
//! events, inspections; and any bytes at all. The samples are facts seen in public reports, personal details replaced.

use std::io::Cursor;

use linchpin_collector::import::Outcome;
use linchpin_collector::import::engine::EngineEvents;
use linchpin_collector::import::inspected::Inspected;
use linchpin_collector::import::kernel::KernelText;
use linchpin_collector::import::merge::Merge;
use linchpin_collector::import::names::Names;
use linchpin_collector::import::when::{Calendar, Years};
use linchpin_data::event::OomKill;
use linchpin_data::{Event, Fact, Timestamp};
use proptest::prelude::*;

const A: &str = "00748bf4e957f82c239a1db8a88579059b7d40c7b5fbd3f43617d31d3f646f12";
const POD: &str = "0a1b2c3d-0000-4111-8222-abcdefabcdef";

fn t(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn drain(mut merge: Merge) -> (Vec<Event>, Vec<Outcome>) {
    let mut all = Vec::new();
    while let Some(event) = merge.following().unwrap() {
        all.push(event);
    }
    (all, merge.outcomes())
}

/// Times since boot begin at 2017-12-07T00:00:00Z, years at 2017.
fn kernel(text: impl Into<Vec<u8>>) -> (Vec<Event>, Outcome) {
    let calendar = Calendar::new(Years::From(2017), 0, Some(t("2017-12-07T00:00:00Z")));
    let mut merge = Merge::default();
    let input = Cursor::new(text.into());
    merge.add(Box::new(KernelText::new(input, "web-1".into(), Names::default(), calendar)));
    let (events, mut outcomes) = drain(merge);
    (events, outcomes.remove(0))
}

fn kills(events: &[Event]) -> Vec<(&str, &OomKill)> {
    events
        .iter()
        .filter_map(|e| if let Fact::OomKill(k) = &e.fact { Some((&*e.subject, &**k)) } else { None })
        .collect()
}

type Prefix = fn(u32) -> String;

/// Every form of prefix, of the second `s` after five past midnight.
const FORMS: [(&str, Prefix); 12] = [
    ("kmsg", |s| format!("6,{},{}000000,-;", 100 + s, 300 + s)),
    ("kmsg with caller", |s| format!("6,{},{}000000,-,caller=T9185;", 100 + s, 300 + s)),
    ("dmesg", |s| format!("[  {}.000000] ", 300 + s)),
    ("dmesg with caller", |s| format!("[  {}.0][ T9185] ", 300 + s)),
    ("dmesg -T", |s| format!("[Thu Dec  7 00:05:{s:02} 2017] ")),
    ("dmesg -T, French", |s| format!("[jeu. déc.  7 00:05:{s:02} 2017] ")),
    ("dmesg -T, Chinese", |s| format!("[四 12月  7 00:05:{s:02} 2017] ")),
    ("syslog", |s| format!("Dec  7 00:05:{s:02} web-1 kernel: [  514.682838] ")),
    ("syslog without a host", |s| format!("Dec  7 00:05:{s:02} kernel: ")),
    ("syslog, RFC 3339", |s| format!("2017-12-07T01:05:{s:02}.0+01:00 web-1 kernel: ")),
    ("journalctl short", |s| format!("Dec 07 00:05:{s:02} web-1 kernel: ")),
    ("dmesg, ISO", |s| format!("2017-12-07T00:05:{s:02},000000+00:00 ")),
];

/// What a report of some lines is: subject, pid, process, scope, group, resident KiB, in the order of time.
type Told = (String, u64, &'static str, Option<&'static str>, bool, Option<u64>);

/// A trap's number, its lines, and what they tell.
fn traps() -> Vec<(u32, String, Vec<Told>)> {
    let docker = || format!("docker:{}", &A[..12]);
    let constraint = |kind: &str, path: &str, pid: u32, task: &str| {
        format!(
            "oom-kill:constraint={kind},nodemask=(null),cpuset=asker,mems_allowed=0-2,4,{},task_memcg={path},task={task},pid={pid},uid=0\n",
            if kind == "CONSTRAINT_NONE" { "global_oom".to_string() } else { format!("oom_memcg={path}") }
        )
    };
    let victim = |head: &str, pid: u32, name: &str| {
        format!(
            "{head}: Killed process {pid} ({name}) total-vm:10kB, anon-rss:4kB, file-rss:3kB, shmem-rss:2kB, UID:0 pgtables:7kB oom_score_adj:0\n"
        )
    };
    let (own, host) = ("Memory cgroup out of memory", "Out of memory");
    let pod = format!(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{A}.scope",
        POD.replace('-', "_")
    );
    vec![
        (
            1,
            "Memory cgroup out of memory: Kill process 24572 (java) score 0 or sacrifice child\n\
             Killed process 28438 (java) total-vm:20255636kB, anon-rss:466160kB, file-rss:13684kB\n"
                .into(),
            vec![("host:".into(), 28438, "java", None, false, Some(479_844))],
        ),
        (
            2,
            format!(
                "java invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=0\n\
                 Task in /docker/{A} killed as a result of limit of /docker\n\
                 Memory cgroup out of memory: Kill process 7 (java) score 1 or sacrifice child\n\
                 Killed process 7 (java) total-vm:9kB, anon-rss:4kB, file-rss:5kB\n"
            ),
            vec![(docker(), 7, "java", Some("memcg"), false, Some(9))],
        ),
        (
            3,
            constraint("CONSTRAINT_MEMCG", &format!("/docker/{A}"), 77, "a,b (c)")
                + &victim(own, 77, "a,b (c)"),
            vec![(docker(), 77, "a,b (c)", Some("memcg"), false, Some(9))],
        ),
        (
            4,
            constraint("CONSTRAINT_NONE", &format!("/system.slice/docker-{A}.scope"), 7134, "java")
                + &victim(host, 7134, "java"),
            vec![(docker(), 7134, "java", Some("host"), false, Some(9))],
        ),
        (
            5,
            constraint("CONSTRAINT_MEMCG", &format!("/docker/{A}"), 10, "w")
                + &victim(own, 10, "w")
                + &format!("Tasks in /docker/{A} are going to be killed due to memory.oom.group set\n")
                + &victim(own, 10, "w")
                + &victim(own, 11, "w"),
            vec![(docker(), 10, "w", Some("memcg"), true, Some(9))],
        ),
        (
            6,
            "Killed process 8642, UID 0, (python) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n".into(),
            vec![("host:".into(), 8642, "python", None, false, Some(5))],
        ),
        (
            7,
            format!(
                "Out of memory and no killable processes...\n\
                 SLUB: Unable to allocate memory on node -1; cache: kmalloc-192(1153:{A}), slab_out_of_memory: 3\n\
                 oom_reaper: reaped process 28438 (java), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB\n"
            ),
            vec![],
        ),
        (
            9,
            constraint("CONSTRAINT_MEMCG", &pod, 5, "x") + &victim(own, 5, "x"),
            vec![(format!("k8s:{POD}/{}", &A[..12]), 5, "x", Some("memcg"), false, Some(9))],
        ),
        (
            9,
            constraint("CONSTRAINT_MEMCG", &format!("/nomad/{POD}"), 5, "x") + &victim(own, 5, "x"),
            vec![(format!("nomad:{POD}"), 5, "x", Some("memcg"), false, Some(9))],
        ),
        (
            21,
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n\
             java.lang.OutOfMemoryError: Java heap space\n"
                .into(),
            vec![],
        ),
        (
            30,
            // The line that names the first victim's cgroup was left out: no other's is taken for it.
            victim(own, 1, "a")
                + &constraint("CONSTRAINT_MEMCG", &format!("/docker/{A}"), 2, "b")
                + &victim(own, 2, "b"),
            vec![
                ("host:".into(), 1, "a", Some("memcg"), false, Some(9)),
                (docker(), 2, "b", Some("memcg"), false, Some(9)),
            ],
        ),
        (
            31,
            constraint("CONSTRAINT_MEMCG", &format!("/docker/{A}/init.scope"), 5, "a) b::c (")
                + &victim(own, 5, "a) b::c ("),
            vec![(docker(), 5, "a) b::c (", Some("memcg"), false, Some(9))],
        ),
        (
            31,
            constraint("CONSTRAINT_NONE", "/", 5, "runc:[2:INIT]") + &victim(host, 5, "runc:[2:INIT]"),
            vec![("host:".into(), 5, "runc:[2:INIT]", Some("host"), false, Some(9))],
        ),
    ]
}

#[test]
fn every_trap_in_every_form() {
    for (form, prefix) in FORMS {
        for (trap, lines, told) in traps() {
            for end in ["\n", "\r\n"] {
                let log: String = lines.lines().map(|l| format!("{}{l}{end}", prefix(15))).collect();
                // The last line is covered too, whether or not it has an end.
                let log = format!("{}noise{end}{log}{}noise", prefix(10), prefix(20));
                let (events, outcome) = kernel(log);
                let got: Vec<_> = kills(&events)
                    .iter()
                    .map(|(subject, k)| {
                        let rss = k.rss_bytes.map(|b| b / 1024);
                        (subject.to_string(), k.pid, k.process.clone(), k.scope.clone(), k.group, rss)
                    })
                    .collect();
                let want: Vec<_> = told
                    .iter()
                    .map(|(s, pid, p, scope, group, rss)| {
                        (
                            s.clone(),
                            Some(*pid),
                            Some(p.to_string()),
                            scope.map(String::from),
                            Some(*group),
                            *rss,
                        )
                    })
                    .collect();
                assert_eq!(got, want, "trap {trap} as {form}");
                let at = |e: &&Event| matches!(e.fact, Fact::OomKill(_)) && e.at != t("2017-12-07T00:05:15Z");
                assert!(!events.iter().any(|e| at(&e)), "trap {trap} as {form}");
                let covers = Some((t("2017-12-07T00:05:10Z"), t("2017-12-07T00:05:20Z")));
                assert_eq!((outcome.covers, outcome.unplaced.total()), (covers, 0), "trap {trap} as {form}");
            }
        }
    }
}

#[test]
fn raw_records_with_continuation_lines_of_a_real_kernel() {
    let (events, outcome) =
        kernel(include_bytes!("fixtures/kernel_log/oom-6.18-cgroup1-container.kmsg").to_vec());
    let told: Vec<_> = kills(&events).iter().map(|(s, k)| (s.to_string(), k.pid, k.limit_bytes)).collect();
    assert_eq!(told.len(), 2);
    assert_eq!(told[1], ("docker:22c42cc67563".into(), Some(16943), Some(16 << 20)));
    assert_eq!(outcome.lines, 270);
}

#[test]
fn what_was_left_out_is_told() {
    let (events, _) = kernel("[Thu Dec  7 00:05:15 2017] oom_kill_process: 70 callbacks suppressed\n");
    let issue =
        events.iter().find_map(|e| if let Fact::Issue(i) = &e.fact { Some(i) } else { None }).unwrap();
    assert_eq!((issue.what.as_deref(), issue.count), (Some("suppressed"), Some(70)));
}

#[test]
fn many_forms_in_one_file_and_what_is_between_them() {
    let mut log = b"\0\0\0\0\xff\xfe garbage\n".to_vec();
    for (i, (_, prefix)) in FORMS.iter().enumerate() {
        let pid = 100 + i;
        let p = prefix(10 + u32::try_from(i).unwrap());
        log.extend_from_slice(
            format!("{p}Out of memory: Killed process {pid} (x) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n")
                .as_bytes(),
        );
        log.extend_from_slice(&[0xc3; 100]);
        log.extend_from_slice(b"\n");
    }
    let huge = format!("[  400.0] {} Killed process 9 (x) total-vm:1kB\n", "x".repeat(100_000));
    log.extend_from_slice(huge.as_bytes());
    log.extend_from_slice(
        b"Out of memory: Killed process 5 (untimed) total-vm:1kB, anon-rss:2kB, file-rss:3kB",
    );
    let (events, outcome) = kernel(log);
    let pids: Vec<_> = kills(&events).iter().filter_map(|(_, k)| k.pid).collect();
    assert_eq!(pids, (100..100 + FORMS.len() as u64).collect::<Vec<_>>());
    let sorts: Vec<_> = outcome.unplaced.sorts().map(|(why, sort)| (why, sort.count)).collect();
    assert_eq!(sorts, [("a line longer than 64 KiB", 1), ("no time that is understood", 1)]);
}

#[test]
fn the_same_kill_in_two_logs_is_one_and_a_pid_used_again_is_not() {
    let line = |s: &str| {
        format!(
            "2017-12-07T{s}Z web-1 kernel: Out of memory: Killed process 5 (x) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n"
        )
    };
    let mut merge = Merge::default();
    for log in [line("00:05:15") + &line("07:00:00"), line("00:05:15.9") + &line("04:00:00")] {
        let calendar = Calendar::new(Years::From(2017), 0, None);
        merge.add(Box::new(KernelText::new(Cursor::new(log), "web-1".into(), Names::default(), calendar)));
    }
    let mut at = Vec::new();
    while let Some(event) = merge.following().unwrap() {
        if matches!(event.fact, Fact::OomKill(_)) {
            at.push(event.at);
        }
    }
    assert_eq!(at, [t("2017-12-07T00:05:15Z"), t("2017-12-07T04:00:00Z"), t("2017-12-07T07:00:00Z")]);
    assert_eq!(merge.told_twice(), 1);
}

#[test]
fn logs_that_overlap_cover_their_union() {
    let mut merge = Merge::default();
    for (from, to) in [("00:00:00", "01:00:00"), ("00:30:00", "02:00:00"), ("03:00:00", "04:00:00")] {
        let log = format!("2017-12-07T{from}Z web-1 kernel: x\n2017-12-07T{to}Z web-1 kernel: x\n");
        let calendar = Calendar::new(Years::From(2017), 0, None);
        merge.add(Box::new(KernelText::new(Cursor::new(log), "web-1".into(), Names::default(), calendar)));
    }
    let (events, _) = drain(merge);
    let told: Vec<_> = events.iter().map(|e| (e.at.to_string()[11..13].to_string(), e.fact.kind())).collect();
    let want =
        [("00", "watch_started"), ("02", "watch_stopped"), ("03", "watch_started"), ("04", "watch_stopped")];
    assert_eq!(told, want.map(|(at, kind)| (at.to_string(), kind)));
}

#[test]
fn what_is_assumed_is_said() {
    let assumed = |line: &str| {
        let mut merge = Merge::default();
        let calendar = Calendar::new(Years::Until(t("2018-03-01T00:00:00Z")), -12_600, None);
        let input = Cursor::new(line.to_string());
        merge.add(Box::new(KernelText::new(input, "web-1".into(), Names::default(), calendar)));
        drain(merge).1.remove(0).assumed
    };
    assert_eq!(
        assumed("Dec  7 00:05:15 web-1 kernel: x"),
        [
            "no line is later than 2018-03-01, the file's own time (--year says otherwise)",
            "times without a zone are UTC-03:30"
        ]
    );
    assert_eq!(
        assumed("[    1.000000] rtc_cmos 00:01: setting system clock to x (1512605101)"),
        ["the machine booted at 2017-12-07T00:05:00.000Z, by the log's own line"]
    );
    assert_eq!(assumed("2017-12-07T00:05:15Z web-1 kernel: x"), [""; 0]);
}

#[test]
fn each_boot_of_a_log_has_its_own_beginning() {
    let boot = |epoch: u64| {
        format!(
            "[    0.000000] Linux version 6.1.0 (gcc)\n\
             [    1.000000] rtc_cmos 00:01: setting system clock to 2017 UTC ({epoch})\n\
             [   10.000000] Out of memory: Killed process {} (x) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n",
            epoch % 10_000
        )
    };
    // The third boot's log does not tell when it was: its kill is not placed by another's.
    let lost = boot(1).lines().filter(|l| !l.contains("rtc_cmos")).collect::<Vec<_>>().join("\n");
    let text = [boot(1_512_605_101), boot(1_512_691_501), lost].concat();
    let mut merge = Merge::default();
    let calendar = Calendar::new(Years::From(2017), 0, None);
    merge.add(Box::new(KernelText::new(Cursor::new(text), "web-1".into(), Names::default(), calendar)));
    let (events, outcomes) = drain(merge);
    let at: Vec<_> = events.iter().filter(|e| matches!(e.fact, Fact::OomKill(_))).map(|e| e.at).collect();
    assert_eq!(at, [t("2017-12-07T00:05:10Z"), t("2017-12-08T00:05:10Z")]);
    assert_eq!(outcomes[0].unplaced.total(), 1);
}

fn engine(lines: &str, names: &Names) -> (Vec<Event>, Outcome) {
    let mut merge = Merge::default();
    merge.add(Box::new(EngineEvents::new(Cursor::new(lines.to_string()), "web-1".into(), names.clone())));
    let (events, mut outcomes) = drain(merge);
    (events, outcomes.remove(0))
}

fn told(events: &[Event]) -> Vec<(String, String, String)> {
    let facts = events.iter().filter(|e| matches!(e.fact, Fact::Exited(_) | Fact::Started(_)));
    facts
        .map(|e| (e.at.to_string()[11..19].to_string(), e.fact.kind().to_string(), e.subject.to_string()))
        .collect()
}

#[test]
fn engine_events_of_many_shapes() {
    let names = Names::default();
    // Old engines name nothing but the id; inspect, given too, knows whose it is.
    let inspect = format!(
        r#"[{{"Id":"{A}","Name":"/app-web-1","Created":"2017-12-06T00:00:00Z","RestartCount":3,
            "State":{{"Running":true,"Pid":7,"StartedAt":"2017-12-07T00:05:17Z","FinishedAt":"2017-12-07T00:05:15Z"}},
            "Config":{{"Image":"app:1","Labels":{{"com.docker.compose.project":"app","com.docker.compose.service":"web","com.docker.compose.container-number":"1"}}}},
            "HostConfig":{{"Memory":536870912,"RestartPolicy":{{"Name":"always"}}}}}}]"#
    );
    let inspected = Inspected::read(inspect.as_bytes(), "web-1".into(), &names, false).unwrap();
    let shapes: [(&str, [String; 2]); 4] = [
        (
            "old Docker",
            [
                format!(r#"{{"status":"die","id":"{A}","from":"app:1","time":1512605115}}"#),
                format!(r#"{{"status":"start","id":"{A}","from":"app:1","time":1512605117}}"#),
            ],
        ),
        (
            "Docker",
            [
                format!(
                    r#"{{"Type":"container","Action":"die","Actor":{{"ID":"{A}","Attributes":{{"exitCode":"137"}}}},"time":1512605115,"timeNano":1512605115000000000}}"#
                ),
                format!(
                    r#"{{"Type":"container","Action":"start","Actor":{{"ID":"{A}","Attributes":{{}}}},"time":1512605117,"timeNano":1512605117000000000}}"#
                ),
            ],
        ),
        (
            "Podman",
            [
                format!(
                    r#"{{"ID":"{A}","Image":"app:1","Name":"","Status":"died","Time":"2017-12-07T01:05:15+01:00","Type":"container","ContainerExitCode":137}}"#
                ),
                format!(
                    r#"{{"ID":"{A}","Image":"app:1","Name":"","Status":"start","Time":"2017-12-07T01:05:17+01:00","Type":"container"}}"#
                ),
            ],
        ),
        (
            "old Podman",
            [
                format!(
                    r#"{{"id":"{A}","status":"died","type":"container","time":1512605115,"Attributes":{{}}}}"#
                ),
                format!(
                    r#"{{"id":"{A}","status":"start","type":"container","time":1512605117,"Attributes":{{}}}}"#
                ),
            ],
        ),
    ];
    for (shape, lines) in shapes {
        let (events, outcome) = engine(&lines.join("\n"), &names);
        let of = |at: &str, kind: &str| (at.to_string(), kind.to_string(), "docker:app/web/1".to_string());
        assert_eq!(told(&events), [of("00:05:15", "exited"), of("00:05:17", "started")], "{shape}");
        assert_eq!((outcome.unplaced.total(), outcome.lines), (0, 2), "{shape}");
    }
    let mut merge = Merge::default();
    merge.add(Box::new(inspected));
    let (events, _) = drain(merge);
    let Fact::Described(d) = &events[0].fact else { panic!("{events:?}") };
    assert_eq!((d.service.as_deref(), d.memory_limit_bytes), (Some("app/web"), Some(512 << 20)));
    // With the events, the counter would count the same restarts again; without them it is all there is.
    assert_eq!(events.len(), 1);
    let mut merge = Merge::default();
    merge.add(Box::new(Inspected::read(inspect.as_bytes(), "web-1".into(), &names, true).unwrap()));
    let (events, _) = drain(merge);
    let Fact::RestartsMissed(m) = &events[1].fact else { panic!("{events:?}") };
    assert_eq!((m.count, events[1].after), (Some(3), Some(t("2017-12-06T00:00:00Z"))));
}

#[test]
fn a_recorded_day_of_docker_20_10_is_told_as_it_was() {
    let lines = include_str!("fixtures/docker/events-20.10.jsonl");
    let (events, outcome) = engine(lines, &Names::default());
    let deaths = lines.lines().filter(|l| l.contains(r#""Action":"die""#)).count();
    let exits = events.iter().filter(|e| matches!(e.fact, Fact::Exited(_))).count();
    assert!(deaths > 3);
    assert_eq!((exits, outcome.unplaced.total()), (deaths, 0));
    let asked = |e: &&Event| matches!(&e.fact, Fact::Exited(x) if x.by_operator == Some(true));
    assert!(events.iter().filter(asked).count() > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_as_any_input(pieces in prop::collection::vec(prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        prop::sample::select(vec![
            "Killed process 7 (x) total-vm:1kB", "oom-kill:constraint=", "[1.5] ", "6,1,2,-;", "Dec  7 00:05:15 web kernel: ", "[Thu Dec  7 00:05:15 2017] ", "\n", "\r\n", "\0",
            "Linux version ", "audit: type=2000 audit(1512605115.1:1)", "setting system clock to (1)", "{\"status\":\"die\",\"id\":\"a\",\"time\":1}", "{\"MESSAGE_ID\":\"98e322203f7a4ed290d09fe03c09fe15\"",
            "[{\"Id\":\"", "\"}]", "{", "}",
        ]).prop_map(|s| s.as_bytes().to_vec()),
    ], 0..40)) {
        let bytes = pieces.concat();
        let names = Names::default();
        let mut merge = Merge::default();
        for journal in [false, true] {
            let calendar = Calendar::new(Years::Until(t("2017-12-07T00:00:00Z")), 0, None);
            let new = if journal { KernelText::journal } else { KernelText::new };
            merge.add(Box::new(new(Cursor::new(bytes.clone()), "web-1".into(), names.clone(), calendar)));
        }
        merge.add(Box::new(EngineEvents::new(Cursor::new(bytes.clone()), "web-1".into(), names.clone())));
        if let Ok(inspected) = Inspected::read(&bytes[..], "web-1".into(), &names, true) {
            merge.add(Box::new(inspected));
        }
        let (events, outcomes) = drain(merge);
        prop_assert!(events.windows(2).all(|w| w[0].at <= w[1].at));
        let lines = bytes.split(|b| *b == b'\n').count() as u64 - u64::from(bytes.is_empty() || bytes.ends_with(b"\n"));
        prop_assert_eq!((outcomes[0].lines, outcomes[1].lines, outcomes[2].lines), (lines, lines, lines));
    }

    #[test]
    fn nothing_is_lost_in_disorder(mut seconds in prop::collection::vec(0u32..86_400, 1..200)) {
        // Inputs need not be sorted: what comes out is, and is all.
        let line = |(pid, s): (usize, &u32)| {
            let (h, m, s) = (s / 3600, s / 60 % 60, s % 60);
            format!("2017-12-07T{h:02}:{m:02}:{s:02}Z web-1 kernel: Out of memory: Killed process {pid} (x) total-vm:1kB, anon-rss:2kB, file-rss:3kB\n")
        };
        let log: String = seconds.iter().enumerate().map(line).collect();
        let (events, _) = kernel(log);
        let got: Vec<i64> = events.iter().filter(|e| matches!(e.fact, Fact::OomKill(_))).map(|e| e.at.0).collect();
        seconds.sort_unstable();
        let day = t("2017-12-07T00:00:00Z").0;
        prop_assert_eq!(got, seconds.iter().map(|s| day + i64::from(*s) * 1_000_000_000).collect::<Vec<_>>());
    }
}
