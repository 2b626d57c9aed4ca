//! The calculator: what a process that restarts so often, for so long, can reach at best. Every input stands in the
//! address; what cannot be read is told beside its field.

use askama::Template;
use linchpin_analyzer::calculator::{Calculation, InputError, Inputs};

use super::frame::Frame;
use crate::markup::{Html, visible};
use crate::range::Params;
use crate::svg::{self, Ruler};
use crate::words;

/// One field of the form.
#[derive(Clone, Debug, Default)]
pub struct Field {
    /// Its name in the address.
    pub name: &'static str,
    /// What it asks.
    pub label: &'static str,
    /// The unit, after the field.
    pub unit: &'static str,
    /// How to write it.
    pub hint: &'static str,
    /// What stands in it.
    pub value: String,
    /// What is wrong with that; empty if nothing.
    pub error: String,
}

/// The form as it was sent.
#[derive(Clone, Debug)]
pub struct Form {
    /// Its fields.
    pub fields: Vec<Field>,
    /// What comes of them, where all can be read.
    pub calculation: Option<Calculation>,
}

struct Question {
    name: &'static str,
    label: &'static str,
    unit: &'static str,
    hint: &'static str,
    default: &'static str,
    least: f64,
    most: f64,
    whole: bool,
}

const QUESTIONS: [Question; 6] = [
    Question {
        name: "restarts_per_hour",
        label: "Restarts",
        unit: "an hour",
        hint: "on average; 0.5 is one in two hours",
        default: "16",
        least: 0.0,
        most: 1e6,
        whole: false,
    },
    Question {
        name: "recovery_seconds",
        label: "Recovery",
        unit: "each",
        hint: "1.15s, 350ms or 2min; plain figures are seconds",
        default: "1.15s",
        least: 0.0,
        most: 2_592_000.0,
        whole: false,
    },
    Question {
        name: "hostnames",
        label: "Hostnames served",
        unit: "",
        hint: "through the one process",
        default: "1",
        least: 0.0,
        most: 1e6,
        whole: true,
    },
    Question {
        name: "replicas",
        label: "Replicas behind it",
        unit: "",
        hint: "they do not lift its ceiling",
        default: "1",
        least: 1.0,
        most: 1e6,
        whole: true,
    },
    Question {
        name: "target",
        label: "Target",
        unit: "%",
        hint: "the share of time up that is promised",
        default: "99.9",
        least: 0.0,
        most: 99.999_999,
        whole: false,
    },
    Question {
        name: "window_days",
        label: "Budget window",
        unit: "days",
        hint: "usually 30",
        default: "30",
        least: 0.001,
        most: 3_660.0,
        whole: false,
    },
];

/// Reads the form out of an address; what is not given has its default.
#[must_use]
pub fn read(params: &Params) -> Form {
    let mut values = [0.0; 6];
    let mut fields = Vec::with_capacity(QUESTIONS.len());
    for (q, value) in QUESTIONS.iter().zip(&mut values) {
        let text =
            params.get(q.name).or_else(|| alias(q.name).and_then(|a| params.get(a))).unwrap_or(q.default);
        let error = match parse(q, text) {
            Ok(v) => {
                *value = v;
                String::new()
            }
            Err(e) => e,
        };
        fields.push(Field {
            name: q.name,
            label: q.label,
            unit: q.unit,
            hint: q.hint,
            value: visible(text, 40),
            error,
        });
    }
    let [restarts_per_hour, recovery_seconds, hostnames, replicas, target, window_days] = values;
    if fields.iter().any(|f| !f.error.is_empty()) {
        return Form { fields, calculation: None };
    }
    let inputs = Inputs {
        restarts_per_hour,
        recovery_seconds,
        hostnames: hostnames as u32,
        replicas: replicas as u32,
        target: target / 100.0,
        window_days,
    };
    let calculation = match Calculation::new(inputs) {
        Ok(c) => Some(c),
        Err(e) => {
            let name = match &e {
                InputError::Target(_) => "target",
                InputError::Window(_) => "window_days",
                InputError::NotACount { name, .. } => name,
                InputError::MoreThanAllTime(_) => "recovery_seconds",
            };
            if let Some(f) = fields.iter_mut().find(|f| f.name == name) {
                f.error = visible(&e.to_string(), 200);
            }
            None
        }
    };
    Form { fields, calculation }
}

/// The command line's shorter word.
fn alias(name: &str) -> Option<&'static str> {
    match name {
        "recovery_seconds" => Some("recovery"),
        "restarts_per_hour" => Some("restarts"),
        _ => None,
    }
}

fn parse(q: &Question, text: &str) -> Result<f64, String> {
    let text = text.trim();
    let bad = || format!("{} is no figure such as {}", visible(text, 40), q.default);
    let (number, factor) =
        if q.name == "recovery_seconds" { unit_of(text) } else { (text.trim_end_matches('%').trim(), 1.0) };
    let value = number.parse::<f64>().ok().filter(|v| v.is_finite()).ok_or_else(bad)? * factor;
    if q.whole && value.fract() != 0.0 {
        return Err(format!("{} is not a whole number", visible(text, 40)));
    }
    if value < q.least || value > q.most {
        let [least, most] = [q.least, q.most].map(plain);
        return Err(format!("{} does not lie between {least} and {most}", visible(text, 40)));
    }
    Ok(value)
}

fn plain(x: f64) -> String {
    if x.fract() == 0.0 { words::count(x.abs() as u64) } else { x.to_string() }
}

fn unit_of(text: &str) -> (&str, f64) {
    for (unit, factor) in [("ms", 1e-3), ("min", 60.0), ("sec", 1.0), ("s", 1.0), ("m", 60.0), ("h", 3600.0)]
    {
        if let Some(number) = text.strip_suffix(unit) {
            return (number.trim_end(), factor);
        }
    }
    (text, 1.0)
}

/// The calculator's page.
#[derive(Template)]
#[template(path = "ceiling.html")]
pub struct CeilingPage {
    /// What stands around.
    pub frame: Frame,
    /// The form.
    pub fields: Vec<Field>,
    /// The verdict.
    pub headline: Html,
    /// `bad`, `good` or `unknown`.
    pub tone: &'static str,
    /// What follows.
    pub follow: Vec<String>,
    /// The scale.
    pub axis: Html,
    /// The picture.
    pub ruler: Option<Html>,
    /// The figures: what, how much, how it is reached.
    pub figures: Vec<(&'static str, String, &'static str)>,
    /// The address of this calculation.
    pub share: String,
    /// The same as a command.
    pub command: String,
}

impl CeilingPage {
    /// Whether every input could be read.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.fields.iter().all(|f| f.error.is_empty())
    }
}

/// The page for an address.
#[must_use]
pub fn page(params: &Params, frame: Frame) -> CeilingPage {
    let form = read(params);
    let mut page = CeilingPage {
        frame,
        headline: Html("Some inputs cannot be read.".into()),
        tone: "unknown",
        follow: Vec::new(),
        axis: svg::ruler_axis(),
        ruler: None,
        figures: Vec::new(),
        share: String::new(),
        command: String::new(),
        fields: form.fields,
    };
    if let Some(c) = form.calculation {
        tell(&mut page, &c);
    }
    page
}

fn tell(page: &mut CeilingPage, c: &Calculation) {
    let i = &c.inputs;
    let short = c.ceiling < i.target;
    page.tone = if short { "bad" } else { "good" };
    page.headline = Html(if short {
        format!(
            "<strong>{}</strong> at best: {} cannot be reached.",
            words::availability(c.ceiling),
            words::target(i.target)
        )
    } else {
        format!(
            "<strong>{}</strong> at best: {} can be reached.",
            words::availability(c.ceiling),
            words::target(i.target)
        )
    });
    page.follow.push(format!(
        "{} restarts an hour of {} each are {} an hour, {} a day.",
        words::plain(i.restarts_per_hour),
        words::duration(i.recovery_seconds),
        words::duration(c.downtime_seconds_per_hour),
        words::duration(c.downtime_seconds_per_day)
    ));
    if c.burn_rate > 1.0 {
        page.follow.push(format!(
            "The error budget burns {} times too fast: what is allowed for {} is gone after {}.",
            words::burn(c.burn_rate),
            words::days(i.window_days),
            c.budget_lasts_days.map_or("unknown".into(), |d| words::duration(d * 86_400.0))
        ));
    }
    if c.burn_rate > 1.0 && c.pages_fired.is_empty() {
        page.follow.push("Spent this steadily it stays below both usual pages (14.4 and 6): nothing fires, and the budget still ends.".into());
    }
    page.follow.push(c.replicas_note.clone());
    page.ruler = Some(svg::ruler(
        "The process",
        &Ruler { target: i.target, ceiling: Some(c.ceiling), interval: None },
    ));
    page.figures = vec![
        (
            "Downtime an hour",
            words::duration(c.downtime_seconds_per_hour),
            "restarts an hour × recovery, at most the hour",
        ),
        ("Downtime a day", words::duration(c.downtime_seconds_per_day), "24 times that"),
        ("Ceiling", words::availability(c.ceiling), "1 − downtime an hour ÷ 3,600 s"),
        ("Burn rate", words::burn(c.burn_rate), "(1 − ceiling) ÷ (1 − target)"),
        ("Budget", words::duration(c.budget_seconds_per_month), "(1 − target) × the budget’s window"),
        (
            "Hostname time lost",
            words::duration(c.hostname_seconds_per_month),
            "downtime over the budget’s window × hostnames",
        ),
    ];
    let pairs: Vec<String> =
        page.fields.iter().map(|f| format!("{}={}", f.name, crate::markup::encode(&f.value))).collect();
    page.share = format!("/ceiling?{}", pairs.join("&"));
    page.command = format!(
        "linchpin ceiling --restarts-per-hour {} --recovery {}s --hostnames {} --replicas {} --target {} --window-days {}",
        i.restarts_per_hour,
        i.recovery_seconds,
        i.hostnames,
        i.replicas,
        words::target(i.target).trim_end_matches(['%', '\u{a0}']),
        i.window_days
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(pairs: &[(&str, &str)]) -> Form {
        read(&Params(pairs.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect()))
    }

    #[test]
    fn units_of_recovery() {
        for (text, seconds) in
            [("1.15s", 1.15), ("1.15", 1.15), ("350 ms", 0.35), ("2min", 120.0), ("1h", 3600.0)]
        {
            let got = form(&[("recovery_seconds", text), ("restarts_per_hour", "0.5")])
                .calculation
                .unwrap()
                .inputs
                .recovery_seconds;
            assert!((got - seconds).abs() < 1e-12, "{text}: {got}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_at_its_field() {
        for (name, text) in [
            ("restarts_per_hour", "-1"),
            ("restarts_per_hour", "often"),
            ("target", "100"),
            ("target", "NaN"),
            ("hostnames", "1.5"),
            ("replicas", "0"),
            ("recovery_seconds", "inf"),
            ("window_days", "0"),
            ("recovery_seconds", "1h"),
        ] {
            let f = form(&[(name, text)]);
            assert!(f.calculation.is_none(), "{name}={text}");
            assert_eq!(
                f.fields.iter().filter(|f| !f.error.is_empty()).map(|f| f.name).collect::<Vec<_>>(),
                [name]
            );
        }
    }
}
