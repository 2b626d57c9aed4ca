//! What real hosts do to naive observers, and the test that holds the right value for each. Here only that none is without one:
//! a list that falls behind the tests fails. The samples stand in the tests themselves.

use std::fs;
use std::path::Path;

const IMPORT: &str = "collector/tests/import.rs";
const KERNEL: &str = "collector/tests/kernel_log.rs";
const PREFIX: &str = "collector/src/sources/kernel_log/prefix.rs";
const CIVIL: &str = "collector/src/sources/kernel_log/civil.rs";
const PATHS: &str = "collector/src/sources/kernel_log/attribute.rs";
const CGROUP: &str = "collector/tests/cgroup_source.rs";
const FILES: &str = "collector/src/sources/cgroup/files.rs";
const READ: &str = "collector/src/sources/docker/tests/read.rs";
const HISTORY: &str = "collector/src/sources/docker/tests/history.rs";
const GAP: &str = "collector/src/sources/docker/tests/gap.rs";
const SESSION: &str = "collector/src/sources/docker/session.rs";
const DAEMON: &str = "collector/src/sources/docker/tests/daemon.rs";
const EPISODES: &str = "analyzer/tests/episodes.rs";
const DIFFERENTIAL: &str = "analyzer/tests/differential.rs";
const NAMES: &str = "analyzer/tests/names.rs";
const CAUSES: &str = "analyzer/tests/causes.rs";
const OBSERVED: &str = "analyzer/tests/observed.rs";
const ADMIN: &str = "collector/tests/admin_replies.rs";
const JUDGE: &str = "collector/src/sources/dns/judge/tests.rs";
const LINES: &str = "collector/src/sources/proxy_log/recognise/tests.rs";
const TELL: &str = "collector/src/sources/proxy_log/tell.rs";
const LAB_OOM: &str = "tests/lab/out_of_memory.rs";

/// A trap by its number, in a few words, and the tests (file, function) that hold its right value.
type Trap = (usize, &'static str, &'static [(&'static str, &'static str)]);

const TRAPS: &[Trap] = &[
    (
        1,
        "one process is announced, another killed",
        &[(KERNEL, "the_sacrificed_child_is_the_victim"), (IMPORT, "every_trap_in_every_form")],
    ),
    (
        2,
        "before 5.0 the cgroup stands in another line",
        &[
            (KERNEL, "the_sacrificed_child_is_the_victim"),
            (KERNEL, "in_a_storm_nothing_is_carried_but_by_pid"),
            (IMPORT, "every_trap_in_every_form"),
        ],
    ),
    (
        3,
        "three ids, one victim",
        &[(KERNEL, "of_three_ids_only_task_memcg_is_the_victims"), (IMPORT, "every_trap_in_every_form")],
    ),
    (
        4,
        "the host ran out, the container paid",
        &[
            (KERNEL, "the_host_ran_out_and_a_container_paid"),
            (CAUSES, "the_host_ran_out"),
            (IMPORT, "every_trap_in_every_form"),
        ],
    ),
    (5, "a group is one death", &[(KERNEL, "a_group_is_one_death"), (IMPORT, "every_trap_in_every_form")]),
    (6, "victim lines of many versions", &[(KERNEL, "victim_lines_of_many_versions")]),
    (
        7,
        "suppressed lines, no killable process, the reaper",
        &[
            (KERNEL, "what_was_left_out_is_said"),
            (KERNEL, "what_is_no_kill"),
            (IMPORT, "what_was_left_out_is_told"),
            (IMPORT, "every_trap_in_every_form"),
        ],
    ),
    (
        8,
        "prefixes differ",
        &[
            (PREFIX, "every_form_of_prefix"),
            (CIVIL, "months_in_many_languages"),
            (IMPORT, "every_trap_in_every_form"),
            (IMPORT, "many_forms_in_one_file_and_what_is_between_them"),
        ],
    ),
    (
        9,
        "cgroup paths of many runtimes",
        &[(PATHS, "paths_of_many_runtimes"), (IMPORT, "every_trap_in_every_form")],
    ),
    (
        10,
        "kills without a record, claims without a kill",
        &[(DIFFERENTIAL, "any_sigkill_is_137_and_a_claim_is_no_proof"), (CAUSES, "a_claim_is_no_proof")],
    ),
    (
        11,
        "the runtime's counter falls back",
        &[
            (GAP, "an_operator_started_it_anew_and_the_counter_fell"),
            (GAP, "it_restarted_as_often_as_its_counter_rose"),
        ],
    ),
    (
        12,
        "a claim of OOM with exit code 0",
        &[
            (DIFFERENTIAL, "a_childs_kill_with_exit_0_is_no_death_of_it"),
            (CAUSES, "a_claim_is_no_proof"),
            (LAB_OOM, "a_childs_kill_ends_no_episode"),
        ],
    ),
    (
        13,
        "137 is any SIGKILL",
        &[
            (DIFFERENTIAL, "any_sigkill_is_137_and_a_claim_is_no_proof"),
            (CAUSES, "signals_crashes_and_clean_ends"),
            (HISTORY, "a_recorded_day_of_docker_20_10"),
        ],
    ),
    (
        14,
        "255 after a daemon's restart",
        &[
            (DIFFERENTIAL, "codes_of_the_program_and_of_a_daemon"),
            (GAP, "it_ended"),
            (CAUSES, "the_runtime_went_away"),
        ],
    ),
    (
        15,
        "compose re-creates",
        &[
            (HISTORY, "a_compose_recreation_keeps_its_subject"),
            (EPISODES, "a_deploy_is_one_subject_and_no_crash"),
        ],
    ),
    (
        16,
        "one death in several words",
        &[
            (HISTORY, "several_words_for_one_death_are_one_exit"),
            (HISTORY, "podman_puts_stop_first"),
            (EPISODES, "one_death_told_in_many_words_is_one"),
        ],
    ),
    (
        17,
        "counters of the level and of those above",
        &[
            (CGROUP, "a_rise_is_a_kill_and_tells_whose_limit_it_was"),
            (FILES, "control_with_and_without_the_counter"),
        ],
    ),
    (18, "a cgroup dies with its container", &[(CGROUP, "counters_of_a_new_life_begin_at_nought")]),
    (19, "a loop backs off", &[(EPISODES, "a_loop_counts_each_of_its_rounds")]),
    (
        20,
        "payloads, old shapes, hostile attributes",
        &[
            (READ, "actions_with_payloads"),
            (READ, "every_shape_of_a_death"),
            (IMPORT, "engine_events_of_many_shapes"),
            (READ, "hostile_names_and_labels_are_kept_and_bounded"),
        ],
    ),
    (21, "look-alikes of kernel kills", &[(KERNEL, "what_is_no_kill"), (IMPORT, "every_trap_in_every_form")]),
    (22, "a monitor's own downtime", &[(OBSERVED, "a_gap_is_neither_up_nor_down")]),
    (
        23,
        "a child's kill is no restart",
        &[(EPISODES, "a_childs_kill_ends_nothing"), (LAB_OOM, "a_childs_kill_ends_no_episode")],
    ),
    (
        24,
        "inspect forgets how the last life ended",
        &[(HISTORY, "a_recorded_day_of_docker_20_10"), (READ, "a_recorded_inspection")],
    ),
    (
        25,
        "an abort as process 1 looks like a fault",
        &[
            (DIFFERENTIAL, "an_abort_as_process_one_is_no_memory_fault"),
            (CAUSES, "signals_crashes_and_clean_ends"),
            (KERNEL, "real_faults_of_a_6_18_kernel"),
        ],
    ),
    (
        26,
        "an engine that learned to speak otherwise",
        &[(SESSION, "an_engine_that_tells_nothing_is_said"), (DAEMON, "garbage_does_not_end_the_watching")],
    ),
    (27, "five seconds count as a week", &[(EPISODES, "a_loop_counts_each_of_its_rounds")]),
    (
        28,
        "states that contradict themselves",
        &[
            (READ, "states_that_say_running_and_do_not"),
            (GAP, "the_clock_was_set_back"),
            (GAP, "an_operator_started_it_anew_and_the_counter_fell"),
        ],
    ),
    (29, "the back-off starts anew", &[(EPISODES, "a_loop_counts_each_of_its_rounds")]),
    (
        30,
        "OOM kills with any exit code, storms",
        &[
            (DIFFERENTIAL, "kills_come_with_any_exit_code"),
            (CAUSES, "its_own_memory_ceiling_needs_the_kernels_word"),
            (CAUSES, "two_witnesses_and_many_lines_are_one_death"),
            (KERNEL, "in_a_storm_nothing_is_carried_but_by_pid"),
            (IMPORT, "every_trap_in_every_form"),
        ],
    ),
    (
        31,
        "odd names and deep paths",
        &[
            (KERNEL, "victim_lines_of_many_versions"),
            (PATHS, "paths_of_many_runtimes"),
            (PATHS, "any_path_has_a_place"),
            (IMPORT, "every_trap_in_every_form"),
        ],
    ),
    (
        32,
        "search domains and AAAA",
        &[
            (JUDGE, "search_domain_misses_are_no_failures"),
            (JUDGE, "a_kind_of_record_that_the_name_lacks_is_no_failure"),
        ],
    ),
    (
        33,
        "nginx says it twice, with a port",
        &[(LINES, "every_sample_is_what_it_is"), (TELL, "printed_twice_is_told_once")],
    ),
    (34, "a Rust proxy's last words", &[(LINES, "every_sample_is_what_it_is")]),
    (35, "HAProxy's maintenance", &[(LINES, "every_sample_is_what_it_is")]),
    (36, "a client that went away", &[(LINES, "every_sample_is_what_it_is")]),
    (37, "Envoy's flags", &[(LINES, "every_sample_is_what_it_is")]),
    (
        38,
        "SERVFAIL and NXDOMAIN say the same",
        &[
            (NAMES, "nxdomain_and_servfail_are_one_failing_name"),
            (JUDGE, "each_outcome"),
            (LINES, "every_sample_is_what_it_is"),
        ],
    ),
    (
        40,
        "normal lines, and silence after a failure",
        &[(LINES, "every_sample_is_what_it_is"), (JUDGE, "silence_is_no_recovery")],
    ),
    (
        39,
        "a stale address that another container holds by now",
        &[(ADMIN, "a_stale_address_that_another_container_holds")],
    ),
    (
        41,
        "replies of admin interfaces",
        &[
            (ADMIN, "envoy_mixes_cases_omits_zeros_and_quotes_numbers"),
            (ADMIN, "haproxys_admin_state_is_a_mask"),
            (ADMIN, "haproxys_columns_vary_by_version"),
            (ADMIN, "frr_nests_by_vrf_and_its_totals_disagree"),
            (ADMIN, "caddy_may_never_say_healthy"),
        ],
    ),
];

#[test]
fn every_trap_has_its_test() {
    for (n, what, tests) in TRAPS {
        assert!(!tests.is_empty(), "trap {n}: {what}");
        for (file, function) in *tests {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let there = text.contains(&format!("fn {function}("));
            assert!(there, "trap {n} ({what}): {file} has no test {function}");
        }
    }
    let mut numbers: Vec<usize> = TRAPS.iter().map(|t| t.0).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=41).collect::<Vec<_>>(), "each trap stands in the list, once");
}
