//! How many bytes a second an import of kernel log text reads: one in some two hundred lines begins a kill's report.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use linchpin_collector::import::kernel::KernelText;
use linchpin_collector::import::merge::Merge;
use linchpin_collector::import::names::Names;
use linchpin_collector::import::when::{Calendar, Years};

const ID: &str = "00748bf4e957f82c239a1db8a88579059b7d40c7b5fbd3f43617d31d3f646f12";

/// Sixteen megabytes of syslog.
fn log() -> String {
    let mut out = String::new();
    let mut line = 0u32;
    while out.len() < 16_000_000 {
        line += 1;
        let pre = format!(
            "Nov {:2} {:02}:{:02}:{:02} web-1 kernel: [{line:8}.123456] ",
            1 + line / 86_400,
            line / 3600 % 24,
            line / 60 % 60,
            line % 60
        );
        if line.is_multiple_of(200) {
            out.push_str(&format!(
                "{pre}java invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
                 {pre}memory: usage 524288kB, limit 524288kB, failcnt {line}\n\
                 {pre}oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/docker/{ID},task_memcg=/docker/{ID},task=java,pid={line},uid=0\n\
                 {pre}Memory cgroup out of memory: Killed process {line} (java) total-vm:2449360kB, anon-rss:515000kB, file-rss:5084kB, shmem-rss:0kB, UID:0 pgtables:1428kB oom_score_adj:0\n"
            ));
        } else {
            out.push_str(&format!("{pre}docker0: port 3(veth{line:07x}) entered blocking state\n"));
        }
    }
    out
}

fn kernel_text(c: &mut Criterion) {
    let text = log();
    let mut group = c.benchmark_group("import");
    group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(20);
    group.bench_function("kernel log text", |b| {
        b.iter(|| {
            let calendar = Calendar::new(Years::From(2026), 0, None);
            let mut merge = Merge::default();
            let input = std::io::Cursor::new(text.clone().into_bytes());
            merge.add(Box::new(KernelText::new(input, "web-1".into(), Names::default(), calendar)));
            let mut events = 0;
            while let Ok(Some(event)) = merge.following() {
                black_box(&event);
                events += 1;
            }
            assert!(events > 100);
            events
        });
    });
    group.finish();
}

criterion_group!(benches, kernel_text);
criterion_main!(benches);
