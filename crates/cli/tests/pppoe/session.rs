// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A router that dials: its namespaces, and a host that sends.
//!
//! ```text
//! inside (host) - lan [this namespace] wire - port0 (modem) port1 - isp0 (isp)
//!                          ppp0 ------------- PPPoE ------------ ppp0
//! ```

use crate::daemons::{LOG, configure};
use rustix::mount::{MountFlags, mount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
pub use weirgate_testing::run;

/// The address of a server behind the provider.
pub const SERVER: &str = "198.51.100.9";

/// Prints a line, and also writes it to the console, which is shown if the machine hangs.
pub fn say(line: &str) {
    println!("{line}");
    let console = File::options().write(true).open("/dev/console");
    let _ = console.and_then(|mut console| writeln!(console, "{line}"));
}

/// Waits until something is found; on a timeout, fails with the log of pppd.
#[track_caller]
pub fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = found() {
            return found;
        }
        let log = || fs::read_to_string(LOG).unwrap_or_default();
        assert!(Instant::now() < end, "no {what}\n{}", log());
        thread::sleep(Duration::from_millis(5));
    }
}

/// Installs the daemons' files where they look for them, and builds the network around the router.
/// The session gets this device; its ends send echo requests as [`configure`] says.
pub fn set_up(device: &str, echo: u32) {
    let plugins = std::env::var(crate::PLUGINS).unwrap();
    for folder in [&plugins, "/var/lib", "/var/run", "/dev/pts"] {
        fs::create_dir_all(folder).unwrap();
    }
    // The server's pppd uses a terminal to talk to its helper program for a session.
    mount("devpts", "/dev/pts", "devpts", MountFlags::empty(), None).unwrap();
    symlink("/usr/sbin/pppoe.so", format!("{plugins}/pppoe.so")).unwrap();
    configure(device, echo);
    for line in [
        "modprobe pppoe",
        // No router answers here, and a host's router solicitations would be packets without an
        // answer.
        "sysctl -qw net.ipv6.conf.default.accept_ra=0",
        "sysctl -qw net.ipv4.ip_forward=1",
        "ip netns add isp",
        "ip netns add host",
        "ip netns add modem",
        "ip link add wire type veth peer name port0 netns modem",
        "ip -n isp link add isp0 type veth peer name port1 netns modem",
        "ip link add lan type veth peer name inside netns host",
        "ip -n modem link add bridge type bridge",
        "ip -n modem link set port0 master bridge",
        "ip -n modem link set port1 master bridge",
        "ip -n modem link set port0 up",
        "ip -n modem link set port1 up",
        "ip -n modem link set bridge up",
        "ip link set lo up",
        "ip link set wire up",
        "ip link set lan up",
        "ip addr add 192.168.1.1/24 dev lan",
        "ip -n isp link set lo up",
        "ip -n isp link set isp0 up",
        "ip -n host link set inside up",
        "ip -n host addr add 192.168.1.2/24 dev inside",
        "ip -n host route add default via 192.168.1.1",
        "nft add table inet clamp",
        "nft add chain inet clamp forward { type filter hook forward priority -150 ; }",
    ] {
        run(line);
    }
    run(&format!("ip -n isp addr add {SERVER}/32 dev lo"));
    run(&format!(
        "nft add rule inet clamp forward oifname {device} tcp flags syn tcp option maxseg size \
         set rt mtu"
    ));
}

/// Sets whether the line between modem and provider carries frames; the wire to the modem stays up.
pub fn line_carries(carries: bool) {
    let state = if carries { "up" } else { "down" };
    run(&format!("ip -n modem link set bridge {state}"));
}

/// Runs a closure in another network namespace, on a new thread; returns its result.
pub fn in_space<T: Send + 'static>(
    name: &'static str,
    act: impl FnOnce() -> T + Send + 'static,
) -> T {
    let there = thread::spawn(move || {
        enter(name);
        act()
    });
    there.join().unwrap()
}

/// Runs a closure in another network namespace, on the calling thread.
pub fn in_this_space<T>(name: &str, act: impl FnOnce() -> T) -> T {
    let own = File::open("/proc/thread-self/ns/net").unwrap();
    enter(name);
    let done = act();
    move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    done
}

/// Moves the calling thread to a network namespace.
pub fn enter(name: &str) {
    let space = File::open(format!("/run/netns/{name}")).unwrap();
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// A host that sends more than the line carries, while it is switched on.
pub struct Load {
    on: Arc<AtomicBool>,
}

impl Load {
    /// Starts a host that sends 250 datagrams of 1028 bytes of IP per second.
    pub fn new(from: &'static str, to: &'static str) -> Self {
        let on = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&on);
        thread::spawn(move || {
            enter("host");
            let socket = UdpSocket::bind(from).unwrap();
            loop {
                thread::sleep(Duration::from_millis(4));
                if flag.load(Ordering::Relaxed) {
                    // Without a route, the router answers with an error.
                    let _ = socket.send_to(&[0; 1000], (to, 4_000));
                }
            }
        });
        Self { on }
    }

    pub fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }
}

/// Makes a host connect to the server, which does not answer.
pub fn host_connects(server: &'static str) {
    in_space("host", || {
        let to = SocketAddr::new(server.parse().unwrap(), 80);
        let _ = TcpStream::connect_timeout(&to, Duration::from_millis(500));
    });
}
