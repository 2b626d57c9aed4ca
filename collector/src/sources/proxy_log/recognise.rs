//! A log line to the failing lookup that it tells of, if it tells of one. Pure, and wary: what a client of the proxy can write
//! into the line (request, agent, referrer) is left out before anything is looked for.

use serde_json::Value;

/// A failing lookup as a program told it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Failed {
    /// The name, in lower case, without port and last dot; none where the line does not say it.
    pub name: Option<String>,
    /// `nxdomain`, `servfail`, `refused`, `timeout`, `nodata`; none where the line does not say it (many say the same for several).
    pub outcome: Option<&'static str>,
    /// Who wrote it, as far as the line shows.
    pub program: &'static str,
}

impl Failed {
    fn new(program: &'static str, name: Option<&str>, outcome: Option<&'static str>) -> Option<Failed> {
        Some(Failed { name: name.and_then(hostname), outcome, program })
    }
}

/// What the C library says when a name has no addresses, and what it means. "Temporary failure" is a SERVFAIL or a timeout.
const LIBC: [(&str, Option<&str>); 5] = [
    ("Name or service not known", Some("nxdomain")),
    ("Name does not resolve", Some("nxdomain")),
    ("nodename nor servname provided", Some("nxdomain")),
    ("No address associated with hostname", Some("nodata")),
    ("Temporary failure in name resolution", None),
];

/// The failing lookup that a plain line tells of.
#[must_use]
pub fn recognise(line: &str) -> Option<Failed> {
    if line.len() < 12 {
        return None;
    }
    if let Some(flags) = access_flags(line) {
        // Envoy's flag for a host that did not resolve; all else in an access line is the client's to write.
        return flags.split(',').any(|f| f == "DF").then(|| Failed::new("envoy", None, None))?;
    }
    let (text, writer) = match json(line) {
        Some(Json::Other) => return None,
        Some(Json::Error(text, writer)) => (text, writer),
        None => (line.replace("\\\"", "\""), None),
    };
    // What nginx adds about the client, and what a cut JSON line holds of it.
    let text = [", client: ", "\"request\":", "\"headers\":"]
        .iter()
        .fold(&*text, |t, end| t.split(end).next().unwrap_or(t));
    let rules: [fn(&str) -> Option<Failed>; 10] =
        [nginx, haproxy, go, envoy, node, java, rust, python, others, libc];
    let mut found = rules.iter().find_map(|rule| rule(text))?;
    if found.program == "go" {
        found.program = writer.or_else(|| go_program(text)).unwrap_or("go");
    }
    Some(found)
}

/// The response flags (or whatever stands there) of an access line: `"GET / HTTP/1.1" 503 DF …`.
fn access_flags(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(" HTTP/")?;
    let (version, rest) = rest.split_once("\" ")?;
    let (status, rest) = rest.split_once(' ')?;
    let is_status = status.len() == 3 && status.bytes().all(|b| b.is_ascii_digit());
    (version.len() <= 3 && is_status).then(|| rest.split(' ').next())?
}

enum Json {
    /// What it says of an error, and who wrote it.
    Error(String, Option<&'static str>),
    /// An object that is no error: an access line, or whatever.
    Other,
}

/// Fields in which programs put what went wrong; never what a client sent.
const FIELDS: [&str; 14] = [
    "error",
    "err",
    "msg",
    "message",
    "log",
    "exception",
    "stack",
    "stack_trace",
    "err_trace",
    "cause",
    "reason",
    "detail",
    "text",
    "textPayload",
];

fn json(line: &str) -> Option<Json> {
    if !line.starts_with('{') {
        return None;
    }
    let Ok(Value::Object(map)) = serde_json::from_str(line) else { return None };
    // Access lines of Caddy and Traefik carry words of the client in more places than one.
    let message = map.get("msg").and_then(Value::as_str).unwrap_or_default();
    if message == "handled request" || map.contains_key("DownstreamStatus") || map.contains_key("RequestPath")
    {
        return Some(Json::Other);
    }
    let text: Vec<&str> = FIELDS.iter().filter_map(|f| inner(map.get(*f)?)).collect();
    if text.is_empty() {
        return Some(Json::Other);
    }
    let logger = map.get("logger").and_then(Value::as_str).unwrap_or_default();
    let caddy = logger.starts_with("http.") || logger.starts_with("tls") || logger.starts_with("dynamic_");
    let traefik = map.contains_key("entryPointName")
        || map.contains_key("routerName")
        || map.contains_key("providerName");
    let writer = if caddy { Some("caddy") } else { traefik.then_some("traefik") };
    Some(Json::Error(text.join(" | "), writer.or_else(|| go_program(&text.join(" ")))))
}

/// A text, or the message in an object of an error.
fn inner(v: &Value) -> Option<&str> {
    v.as_str().or_else(|| v.get("message")?.as_str())
}

/// A host name out of `text`, which may have quotes, a scheme, a port, a last dot about it.
fn hostname(text: &str) -> Option<String> {
    let text = text.trim_matches(|c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | '‘' | '’' | '`' | '(' | ')' | '[' | ']' | ',' | ';')
    });
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = text.split(['/', ':', '?', '#']).next()?.trim_end_matches('.');
    let label = |l: &str| {
        !l.is_empty()
            && l.len() <= 63
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    let address = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (text.len() <= 253 && !address && text.split('.').all(label)).then(|| text.to_ascii_lowercase())
}

/// What stands behind `marker`.
fn after<'a>(text: &'a str, marker: &str) -> Option<&'a str> {
    text.split_once(marker).map(|(_, rest)| rest)
}

/// The word before `marker`.
fn before<'a>(text: &'a str, marker: &str) -> Option<&'a str> {
    text.split_once(marker)?.0.split_whitespace().next_back()
}

/// The first word of `text`.
fn word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// What is quoted at the beginning of `text`.
fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\'' | '`' | '‘'))?;
    let close = if quote == '‘' { '’' } else { quote };
    text.get(quote.len_utf8()..)?.split(close).next()
}

/// What the C library said, wherever it stands.
fn libc_word(text: &str) -> Option<(usize, Option<&'static str>)> {
    LIBC.iter().find_map(|(says, outcome)| Some((text.find(says)?, *outcome)))
}

/// At run time the number of its resolver's answer stands behind the name; at start its C library alone is asked.
fn nginx(text: &str) -> Option<Failed> {
    if let Some(rest) = after(text, " could not be resolved (") {
        let outcome = match rest.split(':').next()? {
            "2" => Some("servfail"),
            "3" => Some("nxdomain"),
            "5" => Some("refused"),
            "110" => Some("timeout"),
            _ => None,
        };
        return Failed::new("nginx", before(text, " could not be resolved ("), outcome);
    }
    let rest = after(text, "host not found in ")?;
    // upstream "NAME:PORT", resolver "NAME", or the directive itself.
    let name = quoted(rest).or_else(|| quoted(after(rest, " ")?));
    let name = name.filter(|n| hostname(n).is_some())?;
    Failed::new("nginx", Some(name), None)
}

/// Maintenance that its resolver brought about says so in brackets; an operator's has none.
fn haproxy(text: &str) -> Option<Failed> {
    if let Some(rest) = after(text, "could not resolve address ") {
        return Failed::new("haproxy", quoted(rest), None);
    }
    let why =
        after(text, " for maintenance (").or_else(|| after(text, "(resolution: "))?.split(')').next()?.trim();
    let outcome = match why {
        "DNS NX status" => Some("nxdomain"),
        "DNS timeout status" => Some("timeout"),
        "DNS refused status" => Some("refused"),
        "No IP for server" => Some("nodata"),
        "unspecified DNS error" => None,
        _ => return None,
    };
    Failed::new("haproxy", None, outcome)
}

/// `lookup NAME on SERVER: no such host`, as the net package writes it; `lookup NAME: …` through the C library.
fn go(text: &str) -> Option<Failed> {
    for (at, marker) in text.match_indices("lookup ") {
        let rest = text.get(at + marker.len()..)?;
        let (name, said) = match rest.split_once(' ') {
            Some((name, said)) if name.ends_with(':') => (name, said),
            Some((name, said)) => match said.strip_prefix("on ").and_then(|on| on.split_once(": ")) {
                Some((server, said)) if !server.contains(' ') => (name, said),
                _ => continue,
            },
            None => continue,
        };
        // What it said of this lookup stands at once behind it.
        let said =
            said.get(..said.char_indices().map(|(n, _)| n).find(|n| *n >= 120).unwrap_or(said.len()))?;
        let outcome = if said.starts_with("no such host") {
            Some("nxdomain")
        } else if said.starts_with("server misbehaving") {
            Some("servfail")
        } else if said.starts_with("i/o timeout") || said.contains(": i/o timeout") {
            Some("timeout")
        } else if let Some((_, outcome)) = libc_word(said) {
            outcome
        } else {
            continue;
        };
        if hostname(name).is_some() {
            return Failed::new("go", Some(name), outcome);
        }
    }
    None
}

/// Programs in Go that are known by how they write.
fn go_program(text: &str) -> Option<&'static str> {
    let has = |word: &str| text.contains(word);
    if has("' caused by: dial ")
        || has("httputil/proxy.go")
        || has("traefik")
        || has("providerName=")
        || has("entryPointName=")
    {
        return Some("traefik");
    }
    (has("http.handlers.reverse_proxy") || has("http.log.error") || has("caddy")).then_some("caddy")
}

/// Its resolver's log, with the number of c-ares where that is told.
fn envoy(text: &str) -> Option<Failed> {
    let lower = "dns resolution for ";
    let rest = after(text, lower).or_else(|| after(text, "DNS resolution for "))?;
    let said = rest.get(word(rest).len()..)?;
    if !said.contains("failed") {
        return None;
    }
    // ares.h: ENODATA, ESERVFAIL, ENOTFOUND, EREFUSED, ETIMEOUT.
    let outcome = match after(said, "c-ares status ")
        .map(|s| s.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default())
    {
        Some("1") => Some("nodata"),
        Some("3") => Some("servfail"),
        Some("4") => Some("nxdomain"),
        Some("6") => Some("refused"),
        Some("12") => Some("timeout"),
        _ => None,
    };
    Failed::new("envoy", Some(word(rest)), outcome)
}

/// `getaddrinfo ENOTFOUND NAME`, and the calls of its own resolver.
fn node(text: &str) -> Option<Failed> {
    let calls = ["getaddrinfo ", "queryA ", "queryAaaa ", "querySrv ", "queryAny "];
    let rest = calls.iter().find_map(|call| {
        let rest = after(text, call)?;
        rest.starts_with('E').then_some(rest)
    })?;
    let code = rest.split(|c: char| !(c.is_ascii_uppercase() || c == '_')).next()?;
    let outcome = match code {
        "ENOTFOUND" => Some("nxdomain"),
        "ESERVFAIL" => Some("servfail"),
        "EREFUSED" => Some("refused"),
        "ETIMEOUT" => Some("timeout"),
        "ENODATA" => Some("nodata"),
        "EAI_AGAIN" | "ECONNREFUSED" => None,
        _ => return None,
    };
    let named = word(rest.get(code.len()..).unwrap_or_default());
    let name = Some(named).filter(|n| hostname(n).is_some()).or_else(|| quoted(after(rest, "hostname: ")?));
    Failed::new("node", name, outcome)
}

/// The exception's message is the name, with or without what the C library said; Netty's quotes it.
fn java(text: &str) -> Option<Failed> {
    let rest = after(text, "UnknownHostException")?.trim_start_matches([':', ' ']);
    let outcome = libc_word(rest).and_then(|(_, outcome)| outcome);
    let quoted_name = ["esolve '", "esolve \""]
        .iter()
        .find_map(|m| after(rest, m))
        .and_then(|r| r.split(['\'', '"']).next());
    let bracket = rest.strip_prefix("No such host is known (").and_then(|r| r.split(')').next());
    Failed::new("java", quoted_name.or(bracket).or(Some(word(rest))), outcome)
}

/// The standard library does not say the name; a client above it may say the address it wanted. Hickory says all.
fn rust(text: &str) -> Option<Failed> {
    if let Some(rest) = after(text, "failed to lookup address information") {
        let outcome = libc_word(rest).and_then(|(_, outcome)| outcome);
        let address = ["url (", "for url ", "Uri: ", "uri: "].iter().find_map(|m| after(text, m)).map(word);
        return Failed::new("rust", address.filter(|a| a.contains("://")), outcome);
    }
    let rest = after(text, "no records found for").or_else(|| after(text, "no record found for"))?;
    let name = after(rest, "Name(\"")
        .and_then(|r| r.split('"').next())
        .or_else(|| Some(word(after(rest, "name: ")?)));
    let code = after(rest, "response_code: ")
        .map(|c| c.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
    let outcome = match code {
        Some("NXDomain") => Some("nxdomain"),
        Some("ServFail") => Some("servfail"),
        Some("Refused") => Some("refused"),
        Some("NoError") => Some("nodata"),
        _ => None,
    };
    Failed::new("rust", name, outcome)
}

/// `[Errno -2]` and its like; the libraries above say the name.
fn python(text: &str) -> Option<Failed> {
    let ours = ["gaierror", "[Errno -", "Cannot connect to host ", "NameResolutionError"]
        .iter()
        .any(|m| text.contains(m));
    let (_, outcome) = libc_word(text).filter(|_| ours)?;
    let name = after(text, "Failed to resolve ")
        .and_then(quoted)
        .or_else(|| quoted(after(text, "host=")?))
        .or_else(|| Some(word(after(text, "Cannot connect to host ")?)));
    Failed::new("python", name, outcome)
}

/// Programs with a sentence of their own.
fn others(text: &str) -> Option<Failed> {
    let libc = || libc_word(text).and_then(|(_, outcome)| outcome);
    if let Some(rest) = after(text, "could not translate host name ") {
        return Failed::new("postgresql client", quoted(rest), libc());
    }
    if let Some(rest) = after(text, "Unknown MySQL server host ") {
        return Failed::new("mysql client", quoted(rest), None);
    }
    if let Some(rest) =
        after(text, "Could not resolve host: ").or_else(|| after(text, "Couldn't resolve host '"))
    {
        return Failed::new("curl", Some(rest.split(['\'', ' ']).next()?), None);
    }
    if let Some(rest) = after(text, "DNS lookup failure for: ") {
        return Failed::new("httpd", Some(word(rest)), None);
    }
    if text.contains("could not be resolved to an IP address") {
        let rest = after(text, "Backend host ")?;
        return Failed::new("varnish", Some(rest.split_whitespace().next()?), None);
    }
    if let Some(rest) = after(text, "bad address '") {
        return Failed::new("busybox", rest.split('\'').next(), None);
    }
    if let Some(rest) = after(text, "unable to resolve host address ") {
        return Failed::new("wget", quoted(rest), None);
    }
    if let Some(rest) = after(text, "getaddrinfo for ") {
        return libc_word(rest).and_then(|(_, outcome)| Failed::new("php", Some(word(rest)), outcome));
    }
    None
}

/// Anything that passes on what the C library said, with the name before it, `NAME: …`, or behind it, `… (NAME:PORT)`.
fn libc(text: &str) -> Option<Failed> {
    let (at, outcome) = libc_word(text)?;
    let ahead = text.get(..at)?.trim_end();
    let named =
        ahead.strip_suffix(':').and_then(|a| a.split_whitespace().next_back()).filter(|n| plausible(n));
    let behind =
        text.get(at..)?.split_once(" (").and_then(|(_, r)| r.split(')').next()).filter(|n| plausible(n));
    Failed::new("libc", behind.or(named), outcome)
}

/// Whether a word of a sentence is likely a host's name and not that of a function, a class or an error.
fn plausible(word: &str) -> bool {
    let functions = [
        "getaddrinfo",
        "failed",
        "error",
        "lookup",
        "connect",
        "socketerror",
        "resolve",
        "php_network_getaddresses",
    ];
    hostname(word).is_some_and(|n| !functions.contains(&n.as_str())) && !word.contains('(')
}

#[cfg(test)]
mod tests;
