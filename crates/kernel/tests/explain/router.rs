// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A router in a namespace: `inside` - `lan` | `wan` - `far`. Frames enter at `inside` or `far` and
//! leave at the other end, where the source MAC shows their class. The test's own rules, after the
//! tested ones, write `skb->priority` there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weirgate_explain::{Devices, Packet};
use weirgate_kernel::{Kernel, Scope};
use weirgate_plan::{Options, plan_with, verify};
use weirgate_state::{
    Content, Device, DeviceName, Effect, Hook, HookPrograms, Offloads, Origin, Pfifo, Qdisc,
    QdiscKind, State, Table,
};
use weirgate_units::Handle;

pub fn name(text: &str) -> DeviceName {
    DeviceName::new(text).unwrap()
}

/// Runs a test in a new network namespace, on a thread that ends with it.
pub fn in_namespace<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    assert!(
        rustix::process::geteuid().is_root(),
        "these tests need root: they make network namespaces and devices"
    );
    let body = move || {
        // SAFETY: with CLONE_NEWNET, the thread shares everything else, and memory safety does not
        // depend on a thread's network namespace.
        #[expect(unsafe_code, reason = "unshare is unsafe for other flags' sake")]
        unsafe {
            rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET).unwrap();
        }
        // Use one processor, because the kernel's connection counts depend on the processor that
        // counted a connection (`find_or_evict`, net/netfilter/nf_conncount.c).
        let mut one = rustix::thread::CpuSet::new();
        one.set(rustix::thread::sched_getcpu());
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        test()
    };
    match std::thread::spawn(body).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Runs a command with an input.
pub fn feed(line: &str, input: &str) {
    let mut words = line.split(' ');
    let mut child = Command::new(words.next().unwrap())
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {text}\n{input}");
}

const DEVICES: &str = "\
link set lo up
link add wan address 02:00:ff:ff:00:01 type veth peer name far address 02:00:ff:ff:00:02
link add lan address 02:00:ff:ff:00:03 type veth peer name inside address 02:00:ff:ff:00:04
link set far arp off
link set inside arp off
link set wan addrgenmode none
link set far addrgenmode none
link set lan addrgenmode none
link set inside addrgenmode none
link set wan up
link set far up
link set lan up
link set inside up
addr add 10.8.0.1/24 dev lan
addr add 10.9.0.1/24 dev wan
addr add fd00:8::1/64 dev lan nodad
addr add fd00:9::1/64 dev wan nodad
neigh add 10.8.0.2 lladdr 02:00:00:00:00:08 dev lan
neigh add fd00:8::2 lladdr 02:00:00:00:00:08 dev lan
neigh add 10.9.0.2 lladdr 02:00:00:00:00:09 dev wan
neigh add fd00:9::2 lladdr 02:00:00:00:00:09 dev wan
route add 192.168.0.0/16 via 10.8.0.2 dev lan
route add default via 10.9.0.2 dev wan
route add 2001:db8:1::/48 via fd00:8::2 dev lan
route add ::/0 via fd00:9::2 dev wan
";

/// Suppresses the router's own packets, such as multicast reports, and those of the ends, which
/// would be counted too.
const QUIET: &str =
    "table inet quiet { chain out { type filter hook output priority -400; policy drop; }\n}\n";

const SETTINGS: [(&str, &str); 10] = [
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/conf/lan/rp_filter", "0"),
    ("net/ipv4/conf/wan/rp_filter", "0"),
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/netfilter/nf_conntrack_acct", "1"),
    ("net/netfilter/nf_conntrack_checksum", "0"),
    // Sequence numbers are random, so windows are not valid.
    ("net/netfilter/nf_conntrack_tcp_be_liberal", "1"),
];

/// The source MAC of frames that enter at `lan`.
pub const SENDER: u64 = 0x02_00_00_00_00_08;

/// The router and the ends of its cables.
pub struct Router {
    pub kernel: Kernel,
    runtime: tokio::runtime::Runtime,
    inside: Wire,
    far: Wire,
    redirects: bool,
    classes: Vec<Handle>,
}

/// Returns the state of some tables: without a shaper, but with an IFB if they redirect to one.
pub fn state_of(tables: &[Table]) -> State {
    let mut state = State {
        tables: tables.to_vec(),
        ..State::default()
    };
    for chain in tables.iter().flat_map(|table| &table.chains) {
        if let Hook::Ingress { redirect_to, .. } = &chain.hook {
            let root = Qdisc {
                handle: Handle::new(1, 0),
                stab: None,
                kind: QdiscKind::Pfifo(Pfifo { limit: 100 }),
                origin: Origin::default(),
            };
            let ifb = Device {
                owned_ifb: true,
                offloads: None::<Offloads>,
                root: Some(root),
                origin: Origin::default(),
            };
            state.devices.insert(redirect_to.clone(), ifb);
        }
    }
    state
}

/// Returns the classes that tables write.
fn classes(tables: &[Table]) -> BTreeSet<Handle> {
    let rules = tables.iter().flat_map(|table| &table.chains);
    let effects = rules
        .flat_map(|chain| &chain.rules)
        .flat_map(|r| &r.effects);
    let written = effects.filter_map(|effect| match effect {
        Effect::Class(class) => Some(*class),
        _ => None,
    });
    let sets = tables.iter().flat_map(|table| &table.sets);
    let looked_up = sets.flat_map(|set| match &set.content {
        Content::Classes(elements) => elements.iter().map(|(_, _, class)| *class).collect(),
        _ => Vec::new(),
    });
    written.chain(looked_up).collect()
}

impl Router {
    /// Makes a router with these tables, in the thread's namespace.
    pub fn new(tables: &[Table]) -> Self {
        Self::with(tables, &BTreeMap::new())
    }

    /// Makes a router with these tables, and these programs for arriving packets.
    pub fn with(tables: &[Table], arriving: &BTreeMap<DeviceName, HookPrograms>) -> Self {
        Self::made(tables, arriving, apply)
    }

    /// Makes a router by the script that replaces weirgate for the tables.
    pub fn exported(tables: &[Table]) -> Self {
        Self::made(tables, &BTreeMap::new(), |_, _, state| {
            let export = weirgate_plan::export(state).unwrap_or_else(|wrong| panic!("{wrong:?}"));
            assert_eq!(export.inexact, Vec::<String>::new());
            feed("sh -s", &export.script);
        })
    }

    fn made(
        tables: &[Table],
        arriving: &BTreeMap<DeviceName, HookPrograms>,
        make: impl FnOnce(&tokio::runtime::Runtime, &Kernel, &State),
    ) -> Self {
        feed("nft -f -", QUIET);
        feed("ip -batch -", DEVICES);
        for (key, value) in SETTINGS {
            let path = format!("/proc/sys/{key}");
            std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let mut state = state_of(tables);
        for name in arriving.keys() {
            let device = Device {
                owned_ifb: false,
                offloads: None,
                root: None,
                origin: Origin::default(),
            };
            state.devices.insert(name.clone(), device);
        }
        state.hooks.clone_from(arriving);
        let kernel = runtime.block_on(async { Kernel::open().unwrap() });
        make(&runtime, &kernel, &state);
        observe_classes(tables);
        Self {
            kernel,
            runtime,
            inside: Wire::open("inside"),
            far: Wire::open("far"),
            redirects: redirects(tables),
            classes: classes(tables).into_iter().collect(),
        }
    }

    pub fn counters(&self, netdev: bool) -> BTreeMap<String, u64> {
        let counters = self.kernel.rule_counters(netdev, "weirgate");
        let all = self.runtime.block_on(counters).unwrap();
        all.into_iter().map(|(name, c)| (name, c.packets)).collect()
    }

    /// Sends the fragments of a packet. Returns what left first, and the times between which the
    /// rules ran.
    pub fn pass(&self, up: bool, parts: &[&Packet]) -> (Option<Seen>, Instant, Instant) {
        let (from, to) = if up {
            (&self.inside, &self.far)
        } else {
            (&self.far, &self.inside)
        };
        to.drain();
        let before = Instant::now();
        for part in parts {
            let device = if up { [0, 0, 0, 3] } else { [0, 0, 0, 1] };
            let mut frame = vec![0x02, 0, 0xff, 0xff, device[2], device[3]];
            let sender = part.source_mac.unwrap_or(SENDER);
            frame.extend(&sender.to_be_bytes()[2..]);
            frame.extend(part.ethertype.to_be_bytes());
            frame.extend(&part.bytes);
            from.send(&frame);
        }
        // If nothing leaves, the rules have run nevertheless: on a veth pair, in the sender's
        // context.
        let sent = Instant::now();
        let in_header = (!up && self.redirects).then_some(self.classes.as_slice());
        let seen = to.receive(in_header, Duration::from_millis(500));
        let after = seen.as_ref().map_or(sent, |_| Instant::now());
        (seen, before, after)
    }
}

/// Applies a state as weirgate does, and reads it back.
pub fn apply(runtime: &tokio::runtime::Runtime, kernel: &Kernel, state: &State) {
    runtime.block_on(async {
        let scope = Scope::of([state]);
        let before = kernel.observe(&scope).await.unwrap();
        let options = Options {
            previous: None,
            replace_foreign: false,
        };
        let plan =
            plan_with(&before, state, &options).unwrap_or_else(|problems| panic!("{problems:?}"));
        kernel.apply(&plan).await.unwrap();
        let after = kernel.observe(&scope).await.unwrap();
        assert_eq!(verify(&after, state), vec![]);
    });
}

/// Returns the path of a packet through the router.
pub fn path(up: bool) -> Devices {
    let (lan, wan) = (Some(name("lan")), Some(name("wan")));
    if up {
        Devices {
            arrives: lan,
            leaves: wan,
        }
    } else {
        Devices {
            arrives: wan,
            leaves: lan,
        }
    }
}

/// Returns whether a table redirects arriving packets.
fn redirects(tables: &[Table]) -> bool {
    let mut chains = tables.iter().flat_map(|table| &table.chains);
    chains.any(|chain| matches!(chain.hook, Hook::Ingress { .. }))
}

/// Writes `skb->priority` into the source MAC of frames that leave.
pub fn observe_classes(tables: &[Table]) {
    let list: Vec<String> = classes(tables)
        .into_iter()
        .map(|class| {
            let (a, b) = (class.major.to_be_bytes(), class.minor.to_be_bytes());
            let text = format!("{:x}:{:x}", class.major, class.minor);
            let mac = format!("02:00:{:02x}:{:02x}:{:02x}:{:02x}", a[0], a[1], b[0], b[1]);
            format!("{text} : {mac}")
        })
        .collect();
    let elements = match list.join(", ") {
        none if none.is_empty() => none,
        list => format!("elements = {{ {list} }};"),
    };
    let priority = format!("map p {{ typeof meta priority : ether saddr; {elements} }}");
    let mut text = format!(
        "table netdev see {{ {priority}\n\
         chain up {{ type filter hook egress device wan priority 1; \
         ether saddr set meta priority map @p; }}\n}}\n"
    );
    if redirects(tables) {
        // A redirected packet does not pass an egress hook again, so its class is written into the
        // IP header, after reassembly. The value is the index of the class, from 1.
        let written: Vec<String> = classes(tables)
            .into_iter()
            .zip(1..)
            .map(|(class, text)| {
                let class = format!("{:x}:{:x}", class.major, class.minor);
                format!(
                    "meta priority {class} ip id set {text}\n\
                     meta priority {class} ip6 flowlabel set {text}\n"
                )
            })
            .collect();
        let written = written.concat();
        let keep = format!(
            "table inet keep {{\n\
             chain pre {{ type filter hook prerouting priority -350;\n\
             iifname != wan accept\nip id set 0\nip6 flowlabel set 0\n\
             {written} }}\n}}\n",
        );
        text += &keep;
    } else {
        text += "table netdev see { chain down { type filter hook egress device lan priority 1; \
                 ether saddr set meta priority map @p; }\n}\n";
    }
    feed("nft -f -", &text);
}

/// A frame that left the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub class: Option<Handle>,
    pub packet: Packet,
}

/// One end of a cable, as a packet socket.
pub struct Wire(libc::c_int);

impl Drop for Wire {
    fn drop(&mut self) {
        // SAFETY: the descriptor belongs to this value.
        #[expect(unsafe_code, reason = "packet sockets are not in rustix")]
        unsafe {
            libc::close(self.0);
        }
    }
}

/// `PACKET_IGNORE_OUTGOING`, linux/if_packet.h.
const IGNORE_OUTGOING: libc::c_int = 23;

#[expect(unsafe_code, reason = "packet sockets are not in rustix")]
impl Wire {
    pub fn open(device: &str) -> Self {
        let text = std::ffi::CString::new(device).unwrap();
        // SAFETY: `text` is a C string; the address is a plain structure, passed with its size.
        unsafe {
            let all = (libc::ETH_P_ALL as u16).to_be();
            let fd = libc::socket(
                libc::AF_PACKET,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
                i32::from(all),
            );
            assert!(fd >= 0, "{}", Error::last_os_error());
            let wire = Self(fd);
            let one: libc::c_int = 1;
            let done = libc::setsockopt(
                fd,
                libc::SOL_PACKET,
                IGNORE_OUTGOING,
                (&raw const one).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
            assert_eq!(done, 0, "{}", Error::last_os_error());
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = all;
            address.sll_ifindex = libc::if_nametoindex(text.as_ptr()) as i32;
            let done = libc::bind(
                fd,
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            );
            assert_eq!(done, 0, "{}", Error::last_os_error());
            wire
        }
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the buffer has the given length.
        let sent = unsafe { libc::send(self.0, frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", Error::last_os_error());
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 4096];
        // SAFETY: the buffer has the given length.
        let got = unsafe { libc::recv(self.0, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        buffer.truncate(usize::try_from(got).ok()?);
        Some(buffer)
    }

    pub fn drain(&self) {
        while self.next().is_some() {}
    }

    pub fn receive(&self, in_header: Option<&[Handle]>, patience: Duration) -> Option<Seen> {
        let limit = Instant::now() + patience;
        loop {
            if let Some(frame) = self.next() {
                if let Some(seen) = read(&frame, in_header) {
                    return Some(seen);
                }
                continue;
            }
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let mut poll = libc::pollfd {
                fd: self.0,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one structure, as the length says.
            unsafe { libc::poll(&raw mut poll, 1, left.as_millis() as i32 + 1) };
        }
    }
}

/// Parses a forwarded frame; others are ignored. The class is its source MAC, or the index of the
/// class in the IP header.
fn read(frame: &[u8], in_header: Option<&[Handle]>) -> Option<Seen> {
    let ethertype = u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]);
    // Frames to the next hops, not the router's own packets.
    let next_hop = frame[..5] == [2, 0, 0, 0, 0] && [8, 9].contains(&frame[5]);
    if !next_hop {
        return None;
    }
    let number = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let class = if let Some(classes) = in_header {
        let at = if ethertype == 0x0800 { 14 + 4 } else { 14 + 2 };
        let place = usize::from(number(at)).checked_sub(1);
        place.and_then(|place| classes.get(place)).copied()
    } else {
        let class = Handle::new(number(8), number(10));
        Some(class).filter(|class| class.major != 0xffff)
    };
    Some(Seen {
        class,
        packet: Packet::whole(ethertype, frame[14..].to_vec()),
    })
}
