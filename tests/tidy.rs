//! The rules of the house, as tests: who may depend on whom, where unsafe and clocks may stand, that every list agrees
//! with the registry, that every file says what it is for. ARCHITECTURE.md gives the reasons.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every tracked or new Rust file, as a path from the root.
fn rust_files() -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut todo = vec![root().to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" && name != "node_modules" {
                    todo.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path.strip_prefix(root()).unwrap().to_path_buf());
            }
        }
    }
    out.sort();
    assert!(out.len() > 30, "the walk finds the sources");
    out
}

/// The names in a manifest's `[dependencies]`.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let table: toml::Table = read(manifest).parse().unwrap();
    table["dependencies"].as_table().unwrap().keys().cloned().collect()
}

/// What may stand in each crate's `[dependencies]`. A new one is argued here, in a reviewed line.
#[rustfmt::skip]
const ALLOWED: &[(&str, &[&str])] = &[
    ("data", &["chrono", "crc32fast", "nix", "rmp-serde", "serde", "serde_json", "sled", "thiserror"]),
    ("analyzer", &["chrono", "linchpin-data", "serde", "serde_json", "statrs", "thiserror"]),
    ("collector", &[
        "aho-corasick", "async-trait", "bollard", "cgroups-rs", "chrono", "etherparse", "futures-util", "hickory-proto", "inotify",
        "linchpin-data", "memchr", "netlink-sys", "nix", "procfs", "serde", "serde_json", "thiserror", "tokio", "tracing",
    ]),
    ("web", &[
        "askama", "axum", "futures-util", "linchpin-analyzer", "serde", "serde_json", "tokio", "tower-http", "tracing",
    ]),
];

#[test]
fn each_crate_depends_only_on_what_it_may() {
    for (name, allowed) in ALLOWED {
        let allowed: BTreeSet<String> = allowed.iter().map(ToString::to_string).collect();
        let found = dependencies(&format!("{name}/Cargo.toml"));
        let extra: Vec<_> = found.difference(&allowed).collect();
        assert!(extra.is_empty(), "{name} depends on {extra:?}: argue it in ALLOWED, or do without");
    }
}

#[test]
fn the_analyzer_reaches_no_runtime_no_disk_and_no_collector() {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "-p", "linchpin-analyzer", "-e", "normal", "--prefix", "none", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let tree = String::from_utf8(out.stdout).unwrap();
    assert!(tree.contains("linchpin-data"), "the tree is the analyzer's");
    for banned in ["tokio", "sled", "mio", "linchpin-collector", "linchpin-web", "nix", "rustix", "bollard"] {
        let found = tree.lines().any(|l| l.split_whitespace().next() == Some(banned));
        assert!(!found, "the analyzer reaches {banned}: it is to be pure");
    }
    assert!(read("analyzer/src/lib.rs").contains("#![forbid(unsafe_code)]"));
}

#[test]
fn clocks_are_read_in_one_file() {
    let this = Path::new(file!());
    for file in rust_files().iter().filter(|f| f.as_path() != this) {
        let test = file.components().any(|c| c.as_os_str() == "tests" || c.as_os_str() == "examples");
        if test
            || file == Path::new("data/src/clock.rs")
            || file.starts_with("benches")
            || file.starts_with("fuzz")
        {
            continue;
        }
        let text = read(file);
        for banned in ["SystemTime::now", "Utc::now", "std::time::Instant::now", "Local::now"] {
            assert!(!text.contains(banned), "{}: {banned}; take time from the Clock", file.display());
        }
    }
}

/// Files in which `unsafe` may stand: one small module a kernel interface.
const UNSAFE: &[&str] =
    &["collector/src/readiness.rs", "collector/src/witness/priority.rs", "collector/src/witness/sockopt.rs"];

#[test]
fn unsafe_stands_only_where_a_kernel_interface_needs_it() {
    let this = Path::new(file!());
    for file in rust_files().iter().filter(|f| f.as_path() != this && !f.starts_with("tests/lab")) {
        let uses = read(file).lines().any(|l| {
            let code = l.split("//").next().unwrap_or_default();
            code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl")
        });
        let listed = UNSAFE.contains(&file.to_str().unwrap());
        assert_eq!(uses, listed, "{}: unsafe is found {uses}, listed {listed}", file.display());
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for file in rust_files() {
        let text = read(&file);
        let first = text.lines().find(|l| !l.starts_with("#!")).unwrap_or_default();
        assert!(first.starts_with("//!"), "{}: opens without saying what it is for", file.display());
    }
}

#[test]
fn the_collector_never_judges() {
    for file in rust_files().iter().filter(|f| f.starts_with("collector/src")) {
        for (n, line) in read(file).lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default().to_lowercase();
            for word in ["incident", "episode", "root_cause"] {
                assert!(
                    !code.contains(word),
                    "{}:{}: {word:?} is the analyzer's to say",
                    file.display(),
                    n + 1
                );
            }
        }
    }
}

#[test]
fn nothing_is_left_undone_in_silence() {
    let this = Path::new(file!());
    for file in rust_files().iter().filter(|f| f.as_path() != this) {
        let text = read(file);
        for word in ["todo!(", "unimplemented!(", "#[ignore"] {
            assert!(!text.contains(word), "{}: {word}", file.display());
        }
    }
}

#[test]
fn the_registry_agrees_with_fixtures_and_readme() {
    let readme = read("README.md");
    let rows: BTreeSet<String> = readme
        .lines()
        .skip_while(|l| !l.starts_with("## What it sees"))
        .skip(1)
        .take_while(|l| !l.starts_with("## "))
        .filter_map(|l| l.strip_prefix("| `"))
        .filter_map(|l| l.split('`').next())
        .map(str::to_string)
        .collect();
    let names: BTreeSet<String> =
        linchpin_collector::registry().iter().map(|s| s.name().to_string()).collect();
    assert!(names.len() >= 5, "{names:?}");
    assert_eq!(rows, names, "README's table of sources and the registry");
    let folders: BTreeSet<String> = fs::read_dir(root().join("collector/tests/fixtures"))
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(folders, names, "collector/tests/fixtures has one folder a source");
    for source in linchpin_collector::registry() {
        assert!(
            !source.sees().is_empty() && source.sees().len() < 200,
            "{}: sees() is one line",
            source.name()
        );
    }
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    for manifest in
        ["Cargo.toml", "data/Cargo.toml", "collector/Cargo.toml", "analyzer/Cargo.toml", "web/Cargo.toml"]
    {
        let table: toml::Table = read(manifest).parse().unwrap();
        assert_eq!(table["lints"]["workspace"].as_bool(), Some(true), "{manifest}");
    }
}

#[test]
fn file_sizes_are_told() {
    let mut long: Vec<(usize, PathBuf)> =
        rust_files().into_iter().map(|f| (read(&f).lines().count(), f)).filter(|(n, _)| *n > 400).collect();
    long.sort();
    for (lines, file) in &long {
        println!("{lines:>5} lines: {}: is it one idea?", file.display());
    }
    let worst = long.last().map_or(0, |(n, _)| *n);
    assert!(worst <= 800, "a file of {worst} lines is more than one idea: {:?}", long.last());
}
