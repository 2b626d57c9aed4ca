//! A Docker engine of the test's own, and the scene program as its one image. Everything that it makes (daemon,
//! containers, bridge, directories) ends with its guard.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::process::{Running, pass, run, try_run, wait_for};

/// The image that every container of the lab is made of.
pub const IMAGE: &str = "lab-scene";

/// A running engine.
pub struct Engine {
    dir: tempfile::TempDir,
    daemon: Option<Running>,
    live_restore: bool,
    net: u8,
}

/// The scene program, built once per run: static, so that it runs in an empty image.
pub fn scene() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/scene/Cargo.toml");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scene");
        let out = std::process::Command::new(env!("CARGO"))
            .args([
                "build",
                "--release",
                "--locked",
                "--target",
                &triple,
                "--manifest-path",
                manifest,
                "--target-dir",
            ])
            .arg(&target)
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .output()
            .unwrap();
        assert!(out.status.success(), "building the scene: {}", String::from_utf8_lossy(&out.stderr));
        target.join(triple).join("release/scene")
    })
}

impl Engine {
    /// Starts one.
    pub fn start() -> Engine {
        Engine::with(false)
    }

    /// Starts one whose containers outlive the daemon, if `live_restore`.
    pub fn with(live_restore: bool) -> Engine {
        assert!(
            nix::unistd::geteuid().is_root(),
            "the lab needs root: run tests/run, or tests/run --quick without it"
        );
        let dir = tempfile::Builder::new().prefix("lab-").tempdir().unwrap();
        std::fs::create_dir(dir.path().join("shared")).unwrap();
        let net = (16..=250)
            .find(|n| !Path::new(&format!("/sys/class/net/lchlab{n}")).exists())
            .expect("a free bridge name among lchlab16 to lchlab250");
        let mut engine = Engine { dir, daemon: None, live_restore, net };
        let bridge = engine.default_bridge();
        run(&["ip", "link", "add", &bridge, "type", "bridge"]);
        run(&["ip", "address", "add", &format!("172.30.{net}.1/24"), "dev", &bridge]);
        engine.start_daemon();
        engine.import();
        let subnet = format!("172.31.{net}.0/24");
        let bridge = format!("com.docker.network.bridge.name=lchlab{net}");
        engine.docker(&["network", "create", "--subnet", &subnet, "-o", &bridge, "lab"]);
        // Keeps the bridge up while the others come and go.
        engine.docker(&[
            "run",
            "-d",
            "--name",
            "lab-pause",
            "--network",
            "lab",
            "--ip",
            &engine.address(2),
            IMAGE,
            "pause",
        ]);
        engine
    }

    /// The bridge that stands in for docker0.
    fn default_bridge(&self) -> String {
        format!("lchd{}", self.net)
    }

    /// The socket that it listens on.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("d.sock")
    }

    /// A directory of this engine's own, for logs and journals.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The directory that containers see as `/shared`.
    pub fn shared(&self) -> PathBuf {
        self.dir.path().join("shared")
    }

    /// An address on the lab's bridge.
    pub fn address(&self, last: u8) -> String {
        format!("172.31.{}.{last}", self.net)
    }

    /// Runs the client; its output.
    pub fn docker(&self, words: &[&str]) -> String {
        let host = format!("unix://{}", self.socket().display());
        let mut all = vec!["docker", "-H", &host];
        all.extend(words);
        run(&all)
    }

    /// Creates and starts a container: options for `docker run`, and the scene's words.
    pub fn play(&self, name: &str, options: &[&str], words: &[&str]) -> String {
        let shared = format!("{}:/shared", self.shared().display());
        let mut all = vec!["run", "-d", "--name", name, "-v", &shared];
        all.extend(options);
        all.push(IMAGE);
        all.extend(words);
        self.docker(&all)
    }

    /// As [`Engine::play`], on the lab's bridge with a fixed address whose neighbour entry is pinned, so that no address
    /// resolution blurs what the prober sees. Gives the address.
    pub fn play_on_bridge(&self, name: &str, last: u8, options: &[&str], words: &[&str]) -> String {
        let (ip, mac) = (self.address(last), format!("02:42:ac:1f:{:02x}:{last:02x}", self.net));
        let bridge = format!("lchlab{}", self.net);
        run(&["ip", "neigh", "replace", &ip, "lladdr", &mac, "nud", "permanent", "dev", &bridge]);
        // Engines before API 1.44 derive just this address from the IP, and a newer client cannot ask them for it.
        let api = self.docker(&["version", "-f", "{{.Server.APIVersion}}"]);
        let minor: u32 =
            api.split('.').nth(1).and_then(|m| m.parse().ok()).expect("the engine's API version");
        let mut all = vec!["--network", "lab", "--ip", &ip];
        if minor >= 44 {
            all.extend(["--mac-address", &mac]);
        }
        all.extend(options);
        self.play(name, &all, words);
        ip
    }

    /// What `docker inspect` says of it, by a Go template.
    pub fn inspect(&self, name: &str, template: &str) -> String {
        self.docker(&["inspect", "-f", template, name])
    }

    /// Process id of a container's process 1 on the host.
    pub fn pid(&self, name: &str) -> String {
        self.inspect(name, "{{.State.Pid}}")
    }

    /// Ends the daemon as an upgrade would.
    pub fn stop_daemon(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.end(Duration::from_secs(30));
        }
    }

    /// Starts the daemon, and waits until it answers.
    pub fn start_daemon(&mut self) {
        let dir = self.dir.path();
        let at = |name: &str| dir.join(name).display().to_string();
        let host = format!("unix://{}", self.socket().display());
        let (data, exec, pid) = (at("data"), at("exec"), at("d.pid"));
        // An empty file of settings, lest the host's own apply.
        std::fs::write(dir.join("daemon.json"), "{}").unwrap();
        let config = at("daemon.json");
        let bridge = self.default_bridge();
        let mut words = vec![
            "dockerd",
            "-H",
            &host,
            "--config-file",
            &config,
            "--data-root",
            &data,
            "--exec-root",
            &exec,
            "--pidfile",
            &pid,
            // With "none" the daemon would delete docker0, which belongs to the host's own engine.
            "--bridge",
            &bridge,
            "--iptables=false",
            "--ip-forward=false",
            "--log-level",
            "warn",
        ];
        if self.live_restore {
            words.push("--live-restore");
        }
        let log = dir.join("dockerd.log");
        let mut daemon = Running::start(&words, &log);
        let up = wait_for(Duration::from_secs(60), || {
            assert!(
                daemon.ended().is_none(),
                "dockerd ended: {}",
                std::fs::read_to_string(&log).unwrap_or_default()
            );
            try_run(&["docker", "-H", &host, "version"]).status.success().then_some(())
        });
        self.daemon = Some(daemon);
        assert!(
            up.is_some(),
            "dockerd does not answer: {}",
            std::fs::read_to_string(&log).unwrap_or_default()
        );
    }

    fn import(&self) {
        let root = self.dir.path().join("image");
        std::fs::create_dir(&root).unwrap();
        std::fs::copy(scene(), root.join("scene")).unwrap();
        let tar = self.dir.path().join("image.tar").display().to_string();
        run(&["tar", "-C", &root.display().to_string(), "-cf", &tar, "."]);
        self.docker(&["import", "-c", "ENTRYPOINT [\"/scene\"]", &tar, IMAGE]);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let host = format!("unix://{}", self.socket().display());
        // Containers that outlive their daemon are removed through it.
        if self.daemon.is_none() && !std::thread::panicking() {
            self.start_daemon();
        }
        let ids = try_run(&["docker", "-H", &host, "ps", "-aq"]);
        let ids = String::from_utf8_lossy(&ids.stdout).into_owned();
        if !ids.trim().is_empty() {
            let mut words = vec!["docker", "-H", &host, "rm", "-f"];
            words.extend(ids.split_whitespace());
            try_run(&words);
        }
        self.stop_daemon();
        // What a daemon that died badly leaves: its containerd, its mounts, its bridge.
        let pid = self.dir.path().join("exec/containerd/containerd.pid");
        if let Ok(pid) = std::fs::read_to_string(pid) {
            try_run(&["kill", "-KILL", pid.trim()]);
            pass(200);
        }
        let below = self.dir.path().display().to_string();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        for mount in mounts.lines().filter_map(|l| l.split(' ').nth(1)).filter(|m| m.starts_with(&below)) {
            try_run(&["umount", "-l", mount]);
        }
        try_run(&["ip", "link", "delete", &format!("lchlab{}", self.net)]);
        try_run(&["ip", "link", "delete", &self.default_bridge()]);
    }
}
