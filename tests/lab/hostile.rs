//! Labels and process names written to break out of the page: shown as text, everywhere. (A container's own name cannot
//! hold markup; the engine refuses it.)

use std::time::Duration;

use crate::agent::{Agent, escaped};
use crate::engine::Engine;
use crate::process::{pass, wait_for};

const SCRIPT: &str = "<script>alert(1)</script>";
const BREAKOUT: &str = "\"><img src=x onerror='alert(2)'>";
/// What the kernel log will call the process: at most fifteen bytes, and it may hold anything.
const PROCESS: &str = "<script>\"'x(1)";

#[test]
fn names_and_labels_stay_text_on_every_page() {
    let engine = Engine::start();
    let agent = Agent::watch(&engine);
    let labels = [
        format!("com.docker.compose.project={SCRIPT}"),
        format!("com.docker.compose.service={BREAKOUT}"),
        "com.docker.compose.container-number=1".to_string(),
        format!("linchpin.probe=javascript:{SCRIPT}"),
        format!("traefik.http.routers.x.rule=Host(`{SCRIPT}`)"),
        format!("note=\u{202e}{SCRIPT}\nsecond line,with=commas]"),
        format!("\"><b>{SCRIPT}=value"),
    ];
    let mut options = vec!["--network", "container:lab-pause", "--memory", "64m", "--memory-swap", "64m"];
    for label in &labels {
        options.extend(["--label", label]);
    }
    let words =
        ["--port", "8080", "--child-eats", "3000", "--child-name", PROCESS, "--life", "8000", "--code", "3"];
    engine.play("lab-x.y_z-1", &options, &[&["server"], &words[..]].concat());
    // Labels that are not as Compose writes them name nothing: else any container could pose as another subject.
    let p = agent.wait_known("lab-x.y_z-1");
    let died = wait_for(Duration::from_secs(20), || {
        let detail = agent.detail("lab-x.y_z-1");
        (detail.process.restarts > 0 && detail.process.oom_kills > 0).then_some(())
    });
    assert!(died.is_some(), "it loses a child and dies; log: {}", agent.log());
    pass(500);
    let events = agent.events();
    let told = |text: &str| events.iter().any(|e| e.to_string().contains(&text.replace('"', "\\\"")));
    for text in [SCRIPT, BREAKOUT, PROCESS] {
        assert!(told(text), "{text:?} is recorded as it came");
    }
    let own = format!("/process/{}/{}", escaped(&p.host), escaped(&p.subject));
    let mut pages: Vec<String> = ["/", "/events", "/sources", &own].map(str::to_string).to_vec();
    // And every page that these lead to.
    for page in pages.clone() {
        let text = agent.get(&page).unwrap_or_else(|| panic!("{page} answers"));
        pages.extend(text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).filter_map(
            |link| {
                let inside =
                    link.starts_with('/') && !link.starts_with("/assets") && !link.starts_with("/api");
                inside.then(|| link.replace("&amp;", "&").split('#').next().unwrap_or_default().to_string())
            },
        ));
    }
    pages.sort();
    pages.dedup();
    let mut shown = false;
    for path in &pages {
        let page = agent.get(path).unwrap_or_else(|| panic!("{path} answers"));
        for raw in
            [SCRIPT, "<script>\"", "<img src=x", "onerror='alert(2)'>", "href=\"javascript:", "<b><script>"]
        {
            assert!(!page.contains(raw), "{path} holds {raw:?} as markup:\n{page}");
        }
        shown |= ["&lt;script&gt;", "&#60;script&#62;", "&#x3c;script&#x3e;"]
            .iter()
            .any(|safe| page.contains(safe));
    }
    assert!(shown, "some page shows it, as text: {pages:?}");
    let metrics = agent.get("/metrics").unwrap_or_default();
    assert!(metrics.lines().all(|l| !l.starts_with("second line")), "a label ends no line of the metrics");
}
