// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ADSL-6.2 (`experiments/adsl/6.2.toml`) on `ppp0`: a small packet of the first class beside an
//! upload and a stream, on the same line. The line's cells carry a PPPoE session.

use crate::daemons::Daemon;
use crate::inside::{apply, dialled};
use crate::line::{Emulated, Logged, Modem, now_ns};
use crate::session::{SERVER, enter, run, say, set_up};
use rustix::net::sockopt::set_ip_tos;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const LAYER: &str = "adsl:pppoe-llc-fcs";
const UP: u64 = 512_000;
/// Ports of the server.
const ECHO: u16 = 7;
const SINK: u16 = 5001;
/// The code point EF, and the TOS byte with it.
const EF: u8 = 46;
const EF_BYTE: u8 = EF << 2;
/// The payload of a probe, which has 84 bytes of IP like one of ping, and of a packet of the
/// stream, which has 40.
const PROBE: usize = 56;
const STREAM: usize = 12;
/// The limits of the experiment, in milliseconds.
const P99: f64 = 36.0;
const MOST: f64 = 38.0;

/// The number of two-cell frames that the line sends in a second.
const LAST: usize = 600;

/// The experiment's phases: their seconds, and the stream's packets per second.
const PHASES: [(&str, u64, u32); 4] = [
    ("bulk", 20, 0),
    ("udp100", 20, 100),
    ("udp1000", 20, 1_000),
    ("after", 10, 0),
];

/// Starts the server, which echoes datagrams and reads what is uploaded.
fn serve() {
    thread::spawn(|| {
        enter("isp");
        let socket = UdpSocket::bind((SERVER, ECHO)).unwrap();
        let mut room = [0; 2_048];
        while let Ok((length, from)) = socket.recv_from(&mut room) {
            let _ = socket.send_to(&room[..length], from);
        }
    });
    let (ready, listens) = std::sync::mpsc::channel();
    thread::spawn(move || {
        enter("isp");
        let listener = TcpListener::bind((SERVER, SINK)).unwrap();
        ready.send(()).unwrap();
        let mut room = vec![0; 1 << 16];
        while let Ok((mut stream, _)) = listener.accept() {
            while stream.read(&mut room).is_ok_and(|length| length > 0) {}
        }
    });
    listens.recv().unwrap();
}

/// Starts an endless upload.
fn upload() {
    thread::spawn(|| {
        enter("host");
        let mut stream = TcpStream::connect((SERVER, SINK)).unwrap();
        while stream.write_all(&[0; 1 << 14]).is_ok() {}
    });
}

/// Sends small packets at the given rate per second.
fn stream(rate: Arc<AtomicU32>) {
    thread::spawn(move || {
        enter("host");
        let socket = UdpSocket::bind("192.168.1.2:0").unwrap();
        let mut due = Instant::now();
        loop {
            let rate = rate.load(Ordering::Relaxed);
            if rate == 0 {
                thread::sleep(Duration::from_millis(10));
                due = Instant::now();
                continue;
            }
            due += Duration::from_secs(1) / rate;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let _ = socket.send_to(&[0; STREAM], (SERVER, 4_000));
        }
    });
}

/// The time at which each probe was sent, and its round-trip time.
type Answers = Arc<Mutex<Vec<(u64, Option<Duration>)>>>;

/// Sends probes again and again.
fn probe() -> Answers {
    let answers: Answers = Arc::default();
    let shared = Arc::clone(&answers);
    thread::spawn(move || {
        enter("host");
        let socket = UdpSocket::bind("192.168.1.2:0").unwrap();
        set_ip_tos(&socket, EF_BYTE).unwrap();
        let (sender, sent) = (socket.try_clone().unwrap(), Arc::clone(&shared));
        thread::spawn(move || {
            for number in 0_u32.. {
                let mut bytes = [0; PROBE];
                bytes[..4].copy_from_slice(&number.to_be_bytes());
                sent.lock().unwrap().push((now_ns(), None));
                sender.send_to(&bytes, (SERVER, ECHO)).unwrap();
                thread::sleep(Duration::from_micros(61_300));
            }
        });
        let mut room = [0; PROBE];
        while socket.recv_from(&mut room).is_ok() {
            let number = u32::from_be_bytes(*room.first_chunk().unwrap());
            let mut all = shared.lock().unwrap();
            let one = &mut all[number as usize];
            one.1 = Some(Duration::from_nanos(now_ns() - one.0));
        }
    });
    answers
}

/// Returns the experiment's policy, changed to the session's device.
fn policy() -> String {
    let text = include_str!("../../../../experiments/adsl/policies/adsl-three-classes.toml");
    let mut policy = text.to_owned();
    for (from, to) in [
        ("\"wan\"", "\"ppp0\"\ndevice-kind = \"pppoe\"\nmtu = 1492"),
        ("adsl:bridged-vc-fcs", LAYER),
    ] {
        assert!(policy.contains(from), "{from} in {policy}");
        policy = policy.replace(from, to);
    }
    policy
}

/// Returns the part of a time span in which the line was sending.
fn busy(log: &[Logged], (begin, end): (u64, u64)) -> f64 {
    let within = |one: &Logged| {
        let (first, last) = one.sent_ns;
        last.min(end).saturating_sub(first.max(begin))
    };
    log.iter().map(within).sum::<u64>() as f64 / (end - begin) as f64
}

/// Returns how many frames of the session's control are among the last frames. They bypass the
/// queue, and the gate does not know of them. For each, the modem holds one packet more, until the
/// margin of the rate has compensated. Both ends send echo requests, so a request and an answer may
/// be sent at once.
fn beside(before: &[Logged]) -> u32 {
    let last = before.iter().rev().take(LAST);
    last.filter(|one| one.control).count() as u32
}

#[test]
#[ignore = "runs in the guest"]
fn bound() {
    // LCP echoes bypass the queue, so they are sent only every 20 s.
    set_up("ppp0", 20);
    for line in [
        // Without segmentation offload, a segment is one packet, as on a wire.
        "ip -n host link set inside gso_max_segs 1",
        "nft add table ip nat",
        "nft add chain ip nat out { type nat hook postrouting priority 100 ; }",
        "nft add rule ip nat out oifname ppp0 masquerade",
    ] {
        run(line);
    }
    let line = Emulated::new(Modem::of(LAYER), (UP, 2_000_000), 2, 187_000);
    let _server = Daemon::server();
    let _dialler = Daemon::dialler();
    dialled("ppp0", 0);
    apply(&policy());
    serve();
    let rate = Arc::new(AtomicU32::new(0));
    upload();
    stream(Arc::clone(&rate));
    thread::sleep(Duration::from_secs(3));
    let answers = probe();
    let mut spans = Vec::new();
    for (name, seconds, packets) in PHASES {
        rate.store(packets, Ordering::Relaxed);
        let begin = now_ns();
        for _ in 0..seconds * 10 {
            thread::sleep(Duration::from_millis(100));
            line.log();
        }
        spans.push((name, (begin, now_ns())));
    }
    let log = line.log();
    let answers = answers.lock().unwrap().clone();
    let mut bad = Vec::new();
    for (name, (begin, end)) in spans {
        // Leave out the end of a phase, because its last probes may be answered in the next.
        let within = |at: u64| (begin..end - 200_000_000).contains(&at);
        let own = answers.iter().filter(|(at, _)| within(*at));
        let mut times: Vec<f64> = own
            .map(|(_, took)| took.map_or(f64::INFINITY, |took| took.as_secs_f64() * 1e3))
            .collect();
        times.sort_by(f64::total_cmp);
        let p99 = times[(times.len() * 99).div_ceil(100) - 1];
        let most = *times.last().unwrap();
        let came = log.iter().enumerate();
        let probes = came.filter(|(_, one)| within(one.sent_ns.0) && one.code_point == Some(EF));
        let ahead = probes
            .map(|(at, one)| one.ahead.saturating_sub(beside(&log[..at])))
            .max();
        let ahead = ahead.unwrap();
        let busy = busy(&log, (begin, end));
        let figures = format!(
            "{name}: {} probes: p99 {p99:.2} ms, longest {most:.2} ms; at most {ahead} before \
             one in the modem; the line was busy for {:.2} % of the time",
            times.len(),
            busy * 100.0
        );
        say(&figures);
        if p99 > P99 || most > MOST || ahead > 1 || busy < 0.99 {
            bad.push(figures);
        }
    }
    let dropped = log.iter().filter(|one| one.dropped).count();
    say(&format!(
        "{} frames, {dropped} dropped by the modem",
        log.len()
    ));
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(dropped, 0, "by the modem");
}
