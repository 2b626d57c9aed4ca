//! `linchpin import`: opens the files, hands them to the collector's import, and writes what comes out as a recording or
//! into a journal. What could not be placed is said on standard error, and in the recording.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use indicatif::ProgressBar;
use linchpin_collector::import::Outcome;
use linchpin_collector::import::engine::{self, EngineEvents};
use linchpin_collector::import::inspected::Inspected;
use linchpin_collector::import::kernel::KernelText;
use linchpin_collector::import::merge::Merge;
use linchpin_collector::import::names::Names;
use linchpin_collector::import::when::{Calendar, Years};
use linchpin_data::clock::{Clock, SystemClock};
use linchpin_data::event::Issue;
use linchpin_data::journal::{Journal, Options};
use linchpin_data::{Event, Timestamp, jsonl};

use crate::cli::ImportArgs;
use crate::{config, history, plain};

/// Events that Docker replays at most to `--since`.
const REPLAYED: u64 = 256;
/// Events written at once into a journal.
const BATCH: usize = 1024;

/// Imports.
pub fn run(args: &ImportArgs) -> anyhow::Result<()> {
    let files = files(args);
    if files.is_empty() {
        bail!(
            "nothing to import: name a file with --kernel-log, --docker-events, --docker-inspect or --journalctl"
        );
    }
    if files.iter().filter(|(path, _)| is_stdin(path)).count() > 1 {
        bail!("standard input (-) can be only one of the files");
    }
    let host: Arc<str> = args.host.clone().unwrap_or_else(config::this_host).into();
    let bytes = files
        .iter()
        .map(|(p, _)| std::fs::metadata(p).ok().filter(std::fs::Metadata::is_file).map(|m| m.len()));
    let bar = history::progress(bytes.sum(), "import");
    let names = Names::default();
    let mut merge = Merge::default();
    for (path, form) in &files {
        add(&mut merge, path, *form, args, &host, &names, &bar).with_context(|| form.tried(path))?;
    }
    let done = write(&mut merge, args, &host, &files);
    bar.finish_and_clear();
    for ((path, form), outcome) in files.iter().zip(merge.outcomes()) {
        say(path, *form, &outcome);
        if done.is_ok() && !outcome.recognised {
            bail!("{}: nothing in its {} lines is {}", form.tried(path), outcome.lines, form.expected());
        }
        if done.is_ok() && outcome.covers.is_none() && matches!(form, Form::KernelLog | Form::Journalctl) {
            bail!(
                "{}: its times count from boot, and nothing in it tells when that was; give --boot-time (RFC 3339: \
                 what `uptime -s` said, in UTC)",
                form.tried(path)
            );
        }
    }
    if merge.told_twice() > 0 {
        eprintln!("linchpin: {} kills or faults stood there twice and are told once", merge.told_twice());
    }
    done
}

/// What a file holds.
#[derive(Clone, Copy)]
enum Form {
    KernelLog,
    DockerEvents,
    DockerInspect,
    Journalctl,
}

impl Form {
    fn tried(self, path: &Path) -> String {
        let what = match self {
            Form::KernelLog => "kernel log",
            Form::DockerEvents => "docker events",
            Form::DockerInspect => "docker inspect",
            Form::Journalctl => "journal",
        };
        format!("importing the {what} {}", path.display())
    }

    fn expected(self) -> &'static str {
        match self {
            Form::KernelLog => {
                "a kernel log's: lines begin as `[  514.682838]`, `[Thu Dec  7 00:05:15 2017]`, `Dec  7 00:05:15 host kernel:`, \
                 `2017-12-07T00:05:15Z host kernel:` or `6,1234,5678901,-;`"
            }
            Form::DockerEvents => {
                "an event: one JSON object a line, as `docker events --format '{{json .}}'` prints"
            }
            Form::DockerInspect => {
                "a container: a JSON array of objects with `Id`, as `docker inspect` prints"
            }
            Form::Journalctl => {
                "an entry: one JSON object a line with `__REALTIME_TIMESTAMP` and `MESSAGE`, as `journalctl -o json` prints"
            }
        }
    }
}

fn files(args: &ImportArgs) -> Vec<(PathBuf, Form)> {
    let of = |paths: &[PathBuf], form: Form| paths.iter().map(|p| (p.clone(), form)).collect::<Vec<_>>();
    [
        // What names containers comes first.
        of(&args.docker_inspect, Form::DockerInspect),
        of(&args.docker_events, Form::DockerEvents),
        of(&args.kernel_log, Form::KernelLog),
        of(&args.journalctl, Form::Journalctl),
    ]
    .concat()
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    if is_stdin(path) {
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(File::open(path)?))
}

fn add(
    merge: &mut Merge,
    path: &Path,
    form: Form,
    args: &ImportArgs,
    host: &Arc<str>,
    names: &Names,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    if matches!(form, Form::DockerEvents) && !is_stdin(path) {
        engine::learn(BufReader::with_capacity(1 << 18, open(path)?), names)?;
    }
    let input = bar.wrap_read(open(path)?);
    match form {
        Form::DockerInspect => {
            let counters = args.docker_events.is_empty();
            merge.add(Box::new(Inspected::read(input, host.clone(), names, counters)?));
        }
        Form::DockerEvents => {
            let input = BufReader::with_capacity(1 << 18, input);
            merge.add(Box::new(EngineEvents::new(input, host.clone(), names.clone())));
        }
        Form::KernelLog | Form::Journalctl => {
            let years = args.year.map_or_else(|| Years::Until(written(path)), Years::From);
            let calendar = Calendar::new(years, args.utc_offset, args.boot_time);
            let (host, names) = (host.clone(), names.clone());
            merge.add(Box::new(match form {
                Form::Journalctl => KernelText::journal(input, host, names, calendar),
                _ => KernelText::new(input, host, names, calendar),
            }));
        }
    }
    Ok(())
}

/// When a file was last written; now for what is no file.
fn written(path: &Path) -> Timestamp {
    let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    let nanos = file.and_then(|m| m.mtime().checked_mul(1_000_000_000)?.checked_add(m.mtime_nsec()));
    nanos.map_or_else(|| SystemClock.now().at, Timestamp)
}

/// Where events go.
enum Sink {
    Lines(BufWriter<io::StdoutLock<'static>>),
    Journal { journal: Journal, run: u64, seq: u64, batch: Vec<Event> },
}

impl Sink {
    fn take(&mut self, mut event: Event) -> anyhow::Result<()> {
        match self {
            Sink::Lines(out) => jsonl::write(out, &event)?,
            Sink::Journal { journal, run, seq, batch } => {
                *seq += 1;
                (event.run, event.seq) = (Some(*run), Some(*seq));
                batch.push(event);
                if batch.len() >= BATCH {
                    journal.append(batch)?;
                    batch.clear();
                }
            }
        }
        Ok(())
    }

    fn end(self) -> anyhow::Result<()> {
        match self {
            Sink::Lines(mut out) => out.flush()?,
            Sink::Journal { journal, batch, .. } => {
                journal.append(&batch)?;
                journal.flush()?;
            }
        }
        Ok(())
    }
}

fn write(merge: &mut Merge, args: &ImportArgs, host: &str, files: &[(PathBuf, Form)]) -> anyhow::Result<()> {
    let mut sink = match &args.into_journal {
        None => Sink::Lines(BufWriter::with_capacity(1 << 16, io::stdout().lock())),
        Some(dir) => {
            let journal = Journal::open(dir, Options::default())?;
            let run = journal.begin_run()?;
            Sink::Journal { journal, run, seq: 0, batch: Vec::new() }
        }
    };
    let failed = |(i, e): (usize, io::Error)| {
        let what = files.get(i).map(|(path, form)| form.tried(path)).unwrap_or_default();
        anyhow::Error::new(e).context(what)
    };
    while let Some(event) = merge.following().map_err(failed)? {
        sink.take(event)?;
    }
    for ((path, _), outcome) in files.iter().zip(merge.outcomes()) {
        for event in unplaced(path, &outcome, host) {
            sink.take(event)?;
        }
    }
    sink.end()
}

/// What could not be placed, as the recording tells it: at the end of what its file covers.
fn unplaced(path: &Path, outcome: &Outcome, host: &str) -> Vec<Event> {
    let Some((_, last)) = outcome.covers else { return Vec::new() };
    let name = path.file_name().map_or_else(|| "-".into(), |n| n.to_string_lossy().into_owned());
    let issue = |(why, sort): (&str, &linchpin_collector::import::unplaced::Sort)| {
        let fact = Issue {
            source: Some("import".into()),
            what: Some("unplaced".into()),
            detail: Some(format!("lines of {name} that could not be placed: {why}")),
            count: Some(sort.count),
            sample: sort.samples.first().cloned(),
        };
        Event::new(last, host, "host:", fact)
    };
    outcome.unplaced.sorts().map(issue).collect()
}

fn say(path: &Path, form: Form, outcome: &Outcome) {
    let covers = outcome.covers.map_or_else(
        || "no time".into(),
        |(a, b)| format!("{} to {}", a.to_millis_text(), b.to_millis_text()),
    );
    eprintln!("linchpin: {}: {} lines, {covers}", plain::line(&form.tried(path)), outcome.lines);
    if matches!(form, Form::DockerEvents) && outcome.lines == REPLAYED {
        eprintln!(
            "linchpin: Docker keeps its last {REPLAYED} events, and there are as many here: what was before the first is not covered"
        );
    }
    for assumed in &outcome.assumed {
        eprintln!("linchpin: taken that {assumed}");
    }
    for (why, sort) in outcome.unplaced.sorts() {
        eprintln!("linchpin: {} not placed: {why}", sort.count);
        for sample in &sort.samples {
            eprintln!("    {}", plain::cell(sample, 160));
        }
    }
}
