//! Names and labels written to break out of the page: shown as text, everywhere.

use std::time::Duration;

use crate::agent::{Agent, escaped};
use crate::engine::Engine;
use crate::process::wait_for;

const SCRIPT: &str = "<script>alert(1)</script>";
const BREAKOUT: &str = "\"><img src=x onerror='alert(2)'>";

#[test]
fn names_and_labels_stay_text_on_every_page() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    let labels = [
        format!("com.docker.compose.project={SCRIPT}"),
        format!("com.docker.compose.service={BREAKOUT}"),
        "com.docker.compose.container-number=1".to_string(),
        format!("linchpin.probe=javascript:{SCRIPT}"),
        format!("note=\u{202e}{SCRIPT}\nsecond line,with=commas]"),
        format!("\"><b>{SCRIPT}=value"),
    ];
    let mut options = vec!["--network", "container:lab-pause"];
    for label in &labels {
        options.extend(["--label", label]);
    }
    engine.play("lab-x.y_z-1", &options, &["server", "--port", "8080", "--life", "2500", "--code", "3"]);
    // Docker itself allows no markup in a name; its labels allow anything.
    let subject = wait_for(Duration::from_secs(10), || {
        let all = agent.report().processes;
        all.into_iter().find(|p| p.subject.contains("<script>") && p.restarts > 0)
    });
    let p = subject
        .unwrap_or_else(|| panic!("the subject keeps its name as told, and dies; log: {}", agent.log()));
    assert_eq!(p.subject, format!("docker:{SCRIPT}/{BREAKOUT}/1"));
    assert!(agent.find(&p.subject).is_some(), "it can be asked for by its name");
    let own = format!("/process/{}/{}", escaped(&p.host), escaped(&p.subject));
    for path in ["/", "/events", "/sources", &own] {
        let page = agent.get(path).unwrap_or_else(|| panic!("{path} answers"));
        for raw in [SCRIPT, "<img src=x", "onerror='alert(2)'>", "href=\"javascript:"] {
            assert!(!page.contains(raw), "{path} holds {raw:?} as markup:\n{page}");
        }
    }
    for path in ["/", &own] {
        let page = agent.get(path).unwrap();
        let shown = page.contains("&lt;script&gt;")
            || page.contains("&#60;script&#62;")
            || page.contains("&#x3c;script");
        assert!(shown, "{path} shows the name as text:\n{page}");
    }
    let metrics = agent.get("/metrics").unwrap_or_default();
    assert!(metrics.lines().all(|l| !l.starts_with("second line")), "a label ends no line of the metrics");
}
