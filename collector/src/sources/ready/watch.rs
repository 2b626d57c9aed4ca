//! The thread that watches the ports of all containers: it sleeps in one epoll until the kernel says that a listening
//! socket or a container came or went, or until something that started or closed is to be looked at again. What follows
//! from what is seen is [`super::life`]'s.

mod telling;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use linchpin_data::clock::Stamp;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;

use super::diag::Diag;
use super::holders::{Holders, held, succeeded};
use super::life::{Adopted, Life, Ports, Told};
use super::netns::{Home, InsideError, Key, is_in, key_of};
use super::ports::{Listener, read_from_within, sockets_of};
use super::process::{Process, ended_at};
use super::starts::{Sign, Starts, directory, processes};
use crate::roster::{Change, Container, Network};
use crate::source::{SourceContext, SourceError};

const MS: u64 = 1_000_000;
/// What woke us: the source itself, the cgroup directories, or a namespace of that number.
const WAKE: u64 = 0;
const STARTS: u64 = 1;
const FIRST_SPACE: u64 = 2;
/// How long a container may start before its namespace is found or its runtime speaks.
const NAMELESS_NS: u64 = 10_000 * MS;

/// What the source tells its thread.
#[derive(Debug)]
pub enum Word {
    /// The roster changed.
    Change(Change),
    /// Changes were missed: read the roster anew.
    Anew,
    /// Tell what is held, and end.
    Stop,
}

/// What each subject listens on while it is well; kept over restarts of containers and of this source.
pub type Learned = Arc<Mutex<HashMap<Arc<str>, Ports>>>;

/// A container that runs or is about to.
struct Entry {
    life: Life,
    /// Its network namespace, once found.
    key: Option<Key>,
    /// Its main process, once the runtime told it.
    main: Option<Process>,
    /// Its cgroup's directory.
    directory: Option<std::path::PathBuf>,
    /// Who held each port at the last look: the sockets, and the processes that had them open.
    holders: BTreeMap<u16, Holders>,
    came: u64,
    /// When to look next, in boot time.
    next: u64,
}

/// A network namespace that is watched.
struct Space {
    number: u64,
    /// `None`: it can not be entered, and is read through /proc.
    diag: Option<Diag>,
    members: BTreeSet<Arc<str>>,
    /// Ports closed since they were last looked at.
    closed: BTreeMap<u16, Stamp>,
}

/// The watch over all containers.
pub struct Watch {
    cx: SourceContext,
    learned: Learned,
    words: Receiver<Word>,
    wake: Arc<EventFd>,
    epoll: Epoll,
    home: Home,
    host: Key,
    begun: Stamp,
    starts: Option<Starts>,
    lives: HashMap<Arc<str>, Entry>,
    spaces: HashMap<Key, Space>,
    numbers: u64,
    untold: Vec<(Arc<str>, Told, u64)>,
    buffer: Vec<u8>,
    /// Why namespaces can not be entered, once that was met and told.
    refused: bool,
}

fn lost(what: &str, e: &dyn std::fmt::Display) -> SourceError {
    SourceError::Lost { what: what.into(), why: e.to_string() }
}

impl Watch {
    /// Sets the watch up on the calling thread, which must be one of our own.
    ///
    /// # Errors
    /// /proc or epoll is not there.
    pub fn open(
        cx: SourceContext,
        learned: Learned,
        wake: Arc<EventFd>,
        words: Receiver<Word>,
    ) -> Result<Watch, SourceError> {
        let home = Home::here().map_err(|e| lost("open the own network namespace", &e))?;
        let host = key_of(&cx.roots.proc, 1).unwrap_or_else(|_| home.key());
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|e| lost("make an epoll", &e))?;
        epoll
            .add(&*wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))
            .map_err(|e| lost("watch the wake", &e))?;
        let starts = Starts::open().inspect_err(
            |error| tracing::warn!(%error, "container starts are seen only as the runtime tells them"),
        );
        let starts = starts.ok();
        if let Some(s) = &starts {
            epoll
                .add(s, EpollEvent::new(EpollFlags::EPOLLIN, STARTS))
                .map_err(|e| lost("watch the cgroups", &e))?;
        }
        let begun = cx.clock.now();
        Ok(Watch {
            cx,
            learned,
            words,
            wake,
            epoll,
            home,
            host,
            begun,
            starts,
            lives: HashMap::new(),
            spaces: HashMap::new(),
            numbers: FIRST_SPACE,
            untold: Vec::new(),
            buffer: vec![0; 65_536],
            refused: false,
        })
    }

    /// Watches until [`Word::Stop`].
    ///
    /// # Errors
    /// An interface of the kernel broke.
    pub fn run(&mut self) -> Result<(), SourceError> {
        self.read_roster()?;
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let n = match self.epoll.wait(&mut events, self.pause()) {
                Ok(n) => n,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(e) => return Err(lost("wait for news", &e)),
            };
            for event in events.iter().take(n) {
                match event.data() {
                    WAKE => drop(self.wake.read()),
                    STARTS => self.read_signs()?,
                    number => self.read_news(number),
                }
            }
            while let Ok(word) = self.words.try_recv() {
                match word {
                    Word::Change(change) => self.changed(&change)?,
                    Word::Anew => self.read_roster()?,
                    Word::Stop => {
                        self.finish();
                        return Ok(());
                    }
                }
                self.tell_named();
            }
            self.visit_due()?;
        }
    }

    /// How long nothing needs to be done.
    fn pause(&self) -> EpollTimeout {
        let now = self.cx.clock.now().boot_ns;
        let next = self.lives.values().map(|e| e.life.due().map_or(e.next, |due| due.min(e.next))).min();
        next.map_or(EpollTimeout::NONE, |next| {
            let ms = next.saturating_sub(now).div_ceil(MS).min(3_600_000);
            EpollTimeout::try_from(u32::try_from(ms).unwrap_or(u32::MAX)).unwrap_or(EpollTimeout::ZERO)
        })
    }

    fn read_roster(&mut self) -> Result<(), SourceError> {
        let all = self.cx.roster.all();
        let gone: Vec<_> =
            self.lives.keys().filter(|id| !all.iter().any(|c| c.id == **id && c.running)).cloned().collect();
        for id in gone {
            self.end_if_over(&id);
        }
        for container in all.iter().filter(|c| c.running) {
            self.attach(container)?;
        }
        Ok(())
    }

    fn changed(&mut self, change: &Change) -> Result<(), SourceError> {
        match change {
            Change::Started(c) => self.attach(c),
            Change::Described(c) if c.running => self.attach(c),
            Change::Described(_) => Ok(()),
            Change::Exited(c) => {
                self.end_if_over(&c.id);
                Ok(())
            }
            Change::Removed(c) => {
                let now = self.cx.clock.now().boot_ns;
                self.end(&c.id, now);
                Ok(())
            }
        }
    }

    /// The runtime said that a container ended; the one that is watched may be its next life already.
    fn end_if_over(&mut self, id: &str) {
        let Some(main) = self.lives.get(id).and_then(|e| e.main) else { return };
        let now = self.cx.clock.now().boot_ns;
        if let Some(ended) = ended_at(&self.cx.roots.proc, &self.cx.exits, main, now) {
            self.end(id, ended);
        }
    }

    /// Watches the running container that the runtime told of, or joins its name to what is watched already.
    fn attach(&mut self, c: &Container) -> Result<(), SourceError> {
        let proc = self.cx.roots.proc.clone();
        let Some(main) = c.pid.and_then(|pid| Process::read(&proc, pid)) else { return Ok(()) };
        let now = self.cx.clock.now();
        let key = key_of(&proc, main.pid).ok();
        // Where it is known already it is not asked: the kernel answers that only when no cgroup is being made or removed,
        // which takes tens of milliseconds just now.
        let known = self.lives.get(&c.id).and_then(|e| e.directory.clone());
        let directory = known.or_else(|| {
            let text = std::fs::read_to_string(proc.join(format!("{}/cgroup", main.pid))).ok()?;
            directory(&self.cx.roots.cgroup, &text)
        });
        if let (Some(starts), Some(directory)) = (&mut self.starts, &directory) {
            starts.learn(directory);
        }
        if let Some(e) = self.lives.get_mut(&c.id) {
            if e.main == Some(main) {
                return Ok(());
            }
            if e.main.is_none() && (e.key.is_none() || e.key == key) {
                e.main = Some(main);
                e.directory = directory.or(e.directory.take());
                e.life.hurry(now.boot_ns);
                e.next = 0;
                return if e.key.is_none() { self.enter(&c.id, key, main.pid) } else { Ok(()) };
            }
            self.end_if_over(&c.id);
            self.end(&c.id, now.boot_ns);
        }
        let start = self.cx.stamp_of_boot(main.started);
        let life = if main.started < self.begun.boot_ns {
            Life::adopted(start, self.how_adopted(c, start))
        } else {
            Life::started(start)
        };
        let entry = Entry {
            life,
            key: None,
            main: Some(main),
            directory,
            holders: BTreeMap::new(),
            came: now.boot_ns,
            next: 0,
        };
        self.lives.insert(c.id.clone(), entry);
        self.enter(&c.id, key, main.pid)
    }

    /// Whether a process that began before this watch was well all the time, as far as the journal knows.
    fn how_adopted(&self, c: &Container, start: Stamp) -> Adopted {
        let resume = &self.cx.resume;
        let (Some(known), Some(last)) = (resume.subjects.get(&c.subject), resume.last_at) else {
            return Adopted::Well;
        };
        let down = known.running == Some(false) || known.ready == Some(false) || start.at > last;
        if down { Adopted::WasDown(self.cx.stamp_of_wall(last.max(start.at))) } else { Adopted::Well }
    }

    /// Joins a life to its namespace, which is watched from now on.
    fn enter(&mut self, id: &Arc<str>, key: Option<Key>, pid: u32) -> Result<(), SourceError> {
        let Some(key) = key else { return Ok(()) };
        if !self.spaces.contains_key(&key) {
            let diag = match self.home.inside(&self.cx.roots.proc, pid, key, Diag::open) {
                Ok(diag) => Some(diag),
                Err(InsideError::Stuck(e)) => return Err(lost("return to the own network namespace", &e)),
                Err(InsideError::Failed(error)) if !is_in(&self.cx.roots.proc, pid, key) => {
                    tracing::debug!(%id, pid, %error, "left before its namespace was entered; the next visit tries again");
                    // A step of the start that is over already: another process of the container is asked at the next visit.
                    return Ok(());
                }
                Err(InsideError::Failed(e)) => {
                    self.note_refusal(&e);
                    None
                }
            };
            let number = self.numbers;
            self.numbers += 1;
            if let Some(diag) = &diag {
                let interest = EpollEvent::new(EpollFlags::EPOLLIN, number);
                self.epoll.add(diag, interest).map_err(|e| lost("watch a network namespace", &e))?;
            }
            self.spaces
                .insert(key, Space { number, diag, members: BTreeSet::new(), closed: BTreeMap::new() });
        }
        if let Some(space) = self.spaces.get_mut(&key) {
            space.members.insert(id.clone());
        }
        if let Some(e) = self.lives.get_mut(id) {
            e.key = Some(key);
            e.next = 0;
        }
        Ok(())
    }

    /// Says once that namespaces can not be entered.
    fn note_refusal(&mut self, e: &io::Error) {
        if std::mem::replace(&mut self.refused, true) {
            return;
        }
        let detail = format!(
            "enter a container's network namespace: {e}; its ports are read from /proc instead, at most once a second while \
             well. Grant CAP_SYS_ADMIN, CAP_SYS_PTRACE and CAP_NET_ADMIN"
        );
        self.cx.emit_blocking(self.cx.issue("host:", "unreadable", 1, detail, ""));
    }

    /// Ends a life whose main process ended at boot time `ended`; lets its namespace go with its last member.
    fn end(&mut self, id: &str, ended: u64) {
        let Some((id, mut e)) = self.lives.remove_entry(id) else { return };
        let facts = e.life.ended(ended);
        self.tell(&id, facts);
        let Some(key) = e.key else { return };
        let Some(space) = self.spaces.get_mut(&key) else { return };
        space.members.remove(&id);
        if space.members.is_empty()
            && let Some(space) = self.spaces.remove(&key)
            && let Some(diag) = &space.diag
        {
            // Closing it takes it out too; an error changes nothing.
            let _ = self.epoll.delete(diag);
        }
    }

    /// Containers' cgroups that came and went.
    fn read_signs(&mut self) -> Result<(), SourceError> {
        let Some(starts) = &mut self.starts else { return Ok(()) };
        let signs = starts.signs().map_err(|e| lost("read the watch on the cgroups", &e))?;
        for sign in signs {
            let now = self.cx.clock.now();
            match sign {
                Sign::Came(id, directory) => {
                    let id: Arc<str> = id.into();
                    self.end_if_over(&id);
                    self.end(&id, now.boot_ns);
                    let life = Life::started(now);
                    let entry = Entry {
                        life,
                        key: None,
                        main: None,
                        holders: BTreeMap::new(),
                        directory: Some(directory),
                        came: now.boot_ns,
                        next: 0,
                    };
                    self.lives.insert(id, entry);
                }
                Sign::Went(id, directory) => {
                    if self.lives.get(&*id).is_some_and(|e| e.directory.as_ref() == Some(&directory)) {
                        self.end_if_over(&id);
                        self.end(&id, now.boot_ns);
                    }
                }
                Sign::Overrun => self.read_roster()?,
            }
        }
        Ok(())
    }

    /// Ports closed in a namespace.
    fn read_news(&mut self, number: u64) {
        let Some(space) = self.spaces.values_mut().find(|s| s.number == number) else { return };
        let now = self.cx.clock.now();
        let (mut ports, closed) = (Vec::new(), &mut space.closed);
        let complete = space.diag.as_ref().is_none_or(|d| {
            d.news(&mut self.buffer, &mut |port| {
                ports.push(port);
                closed.entry(port).or_insert(now);
            })
            .is_ok()
        });
        for id in &space.members {
            if let Some(e) = self.lives.get_mut(id)
                && (!complete || ports.iter().any(|p| e.life.listens(*p)))
            {
                e.next = 0;
                if let Some(main) = e.main.filter(|_| complete) {
                    self.cx.exits.note_close(main.pid, now.boot_ns);
                }
            }
        }
    }

    fn visit_due(&mut self) -> Result<(), SourceError> {
        let now = self.cx.clock.now().boot_ns;
        let is_due = |e: &Entry| e.next <= now || e.life.due().is_some_and(|due| due <= now);
        let due: Vec<_> = self.lives.iter().filter(|(_, e)| is_due(e)).map(|(id, _)| id.clone()).collect();
        for id in due {
            self.visit(&id)?;
        }
        for space in self.spaces.values_mut() {
            space.closed.clear();
        }
        Ok(())
    }

    /// Looks at one container and tells what follows.
    fn visit(&mut self, id: &Arc<str>) -> Result<(), SourceError> {
        if self.lives.get(id).is_some_and(|e| e.key.is_none()) {
            self.find_space(id)?;
        }
        let Some(e) = self.lives.get(id) else { return Ok(()) };
        let now = self.cx.clock.now();
        if let Some(ended) =
            e.main.and_then(|main| ended_at(&self.cx.roots.proc, &self.cx.exits, main, now.boot_ns))
        {
            self.end(id, ended);
            return Ok(());
        }
        if e.key.is_none() {
            return Ok(());
        }
        let looked = if e.next <= now.boot_ns { Some(self.listeners_of(id)) } else { None };
        let (reply, subject) = (self.cx.clock.now(), self.cx.roster.get(id).map(|c| c.subject));
        let Some(e) = self.lives.get_mut(id) else { return Ok(()) };
        let space = e.key.and_then(|k| self.spaces.get(&k));
        let hears = space.and_then(|s| s.diag.as_ref()).is_some_and(Diag::hears);
        match looked {
            Some(Ok(listeners)) => {
                let nothing = BTreeMap::new();
                let ports: Ports = listeners.iter().map(|l| l.port).collect();
                let closed = space.map_or(&nothing, |s| &s.closed);
                let holders = held(&self.cx.roots.proc, &mut e.holders, &listeners, || {
                    let pids = e.directory.as_deref().map(processes);
                    pids.unwrap_or_else(|| e.main.iter().map(|m| m.pid).collect())
                });
                for (port, old) in &holders {
                    // Closed and open again before we could look: so it was, if its holders ended before the new ones began.
                    if closed.contains_key(port)
                        && let Some((ended, began)) = succeeded(&self.cx.exits, old, e.holders.get(port))
                        && ended < reply.boot_ns
                    {
                        let (ended, began) = (self.cx.stamp_of_boot(ended), self.cx.stamp_of_boot(began));
                        let without: Ports = ports.iter().filter(|p| *p != port).copied().collect();
                        e.life.look(&without, began, began, &BTreeMap::from([(*port, ended)]));
                    }
                }
                e.life.look(&ports, now, reply, closed);
                let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
                let known = subject.as_ref().and_then(|s| learned.get(s)).cloned();
                // Without its name it is not known what it should listen on: judged once the runtime told.
                if let Some(subject) = subject
                    && let Some(new) = e.life.settle(known.as_ref(), reply.boot_ns)
                {
                    learned.insert(subject, new);
                }
                e.next = e.life.next_look(known.is_some(), hears);
            }
            Some(Err(_)) => e.next = reply.boot_ns.saturating_add(20 * MS),
            None => {}
        }
        let facts = e.life.tell(reply.boot_ns, false);
        self.tell(id, facts);
        Ok(())
    }

    /// Finds the namespace of a container: its main process's, or while it is about to start that of a process in its cgroup
    /// which left the host's and ours (its engine's may be either).
    fn find_space(&mut self, id: &Arc<str>) -> Result<(), SourceError> {
        let proc = self.cx.roots.proc.clone();
        let on_host = self.cx.roster.get(id).is_some_and(|c| c.network == Network::Host);
        let Some(e) = self.lives.get_mut(id) else { return Ok(()) };
        let now = self.cx.clock.now().boot_ns;
        let waited = now.saturating_sub(e.came);
        e.next = now.saturating_add(if waited < 300 * MS { 2 * MS } else { 20 * MS });
        if let Some(main) = e.main {
            let key = key_of(&proc, main.pid).ok();
            return self.enter(id, key, main.pid);
        }
        if waited > NAMELESS_NS {
            self.end(id, now);
            return Ok(());
        }
        let pids = e.directory.as_deref().map(processes).unwrap_or_default();
        let before = [self.host, self.home.key()];
        let left = |k: &Key| on_host || !before.contains(k);
        let found = pids.iter().find_map(|pid| key_of(&proc, *pid).ok().filter(left).map(|k| (k, *pid)));
        match found {
            Some((key, pid)) => self.enter(id, Some(key), pid),
            None => Ok(()),
        }
    }

    /// The sockets on which a container listens now.
    fn listeners_of(&mut self, id: &str) -> io::Result<Vec<Listener>> {
        let Some(e) = self.lives.get(id) else { return Ok(Vec::new()) };
        let proc = &self.cx.roots.proc;
        let mut space = e.key.and_then(|k| self.spaces.get_mut(&k));
        let shared = e.key == Some(self.host)
            || space.as_ref().is_some_and(|s| s.members.len() > 1)
            || self
                .cx
                .roster
                .get(id)
                .is_some_and(|c| matches!(c.network, Network::Host | Network::Container(_)));
        let pids = || match &e.directory {
            Some(directory) => processes(directory),
            None => e.main.iter().map(|m| m.pid).collect(),
        };
        let listeners = match space.as_mut() {
            Some(Space { diag: Some(diag), closed, .. }) => {
                let mut look = || {
                    let (mut more, clock) = (false, &self.cx.clock);
                    let found = diag.listening(&mut self.buffer, &mut |port| {
                        more = true;
                        closed.entry(port).or_insert_with(|| clock.now());
                    });
                    found.map(|f| (f, more))
                };
                match look()? {
                    // Something closed while the list was made: it may be on it still.
                    (_, true) => look()?.0,
                    (found, false) => found,
                }
            }
            _ => {
                let key = e.key.ok_or(io::ErrorKind::NotFound)?;
                let candidates = e.main.iter().map(|m| m.pid).chain(pids());
                read_from_within(proc, key, candidates).ok_or(io::ErrorKind::NotFound)?
            }
        };
        let own = listeners.into_iter().filter(Listener::is_own);
        if !shared {
            return Ok(own.collect());
        }
        let sockets = sockets_of(proc, &pids());
        Ok(own.filter(|l| sockets.contains(&l.inode)).collect())
    }
}
