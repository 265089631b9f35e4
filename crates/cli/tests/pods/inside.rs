// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part that runs in the guest, ignored elsewhere.

use crate::node::{
    FOLDER, Service, address, among_pods, build, free_kb, idle_ms, root, run, write,
};
use rustix::net::{RecvFlags, recv};
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const PODS: usize = 1_000;
/// The pods that receive as much as they may.
const USED: usize = 20;
/// The rate of a pod in Mbit/s.
const RATE: f64 = 40.0;

/// The connections of each such pod. With only one, a lost packet would let its queue run empty.
const CONNECTIONS: usize = 2;

/// After this time, IPv6 of the devices has sent three router solicitations, and sends the next one
/// in 16 s (`addrconf_rs_timer`, net/ipv6/addrconf.c). Two thousand devices send them at once.
const SETTLED: Duration = Duration::from_secs(16);

/// The time that pods receive before the measurement, and the time of the measurement.
const BEFORE: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(4);

/// The sparse flow: each pod gets one datagram in this time. The ports of both flows follow.
const PACE: Duration = Duration::from_millis(10);
const SPARSE: u16 = 7;
const BULK: u16 = 9;

/// The interval at which the received bytes are read.
const LOOK: Duration = Duration::from_millis(5);

/// The goals in milliseconds: the 99th percentile of the sparse flow's delay, and the time of a
/// change.
const LATEST: f64 = 5.0;
const CHANGED: f64 = 5.0;

/// Files are added, changed, removed and wrong; devices are added and deleted; one device has a
/// foreign queue.
#[test]
#[ignore = "runs in the lab's kernel"]
fn files_and_devices_are_followed() {
    build(4);
    write("pod0", "rate = \"40mbit\"\n");
    run("tc qdisc add dev pod3 root handle 77: pfifo limit 9");
    write("pod3", "rate = \"1mbit\"\n");
    let service = Service::start();
    service.says("pod0: 40mbit");
    // tc prints the kernel's values.
    assert!(root("pod0").contains("cake 706f: ") && root("pod0").contains("bandwidth 40Mbit"));
    service.says("pod3: K302");
    assert!(root("pod3").contains("pfifo 77:"));
    assert!(root("pod1").contains("noqueue"));

    write("pod1", "rate = \"10mbit\"\n");
    service.says("pod1: 10mbit");
    // This file is written in place.
    fs::write(format!("{FOLDER}/pod1"), "rate = \"20mbit\"\n").unwrap();
    service.says("pod1: 20mbit");
    assert!(root("pod1").contains("bandwidth 20Mbit"));

    write("pod1", "rate = \"20mbit\"\nrat = 1\n");
    service.says("pod1:2");
    assert!(root("pod1").contains("bandwidth 20Mbit"));

    write("a name with blanks", "rate = \"1mbit\"\n");
    service.says("no device can have this name");

    fs::remove_file(format!("{FOLDER}/pod0")).unwrap();
    service.says("pod0: its rate is removed");
    assert!(root("pod0").contains("noqueue"));

    // The file exists before the device.
    write("late", "rate = \"30mbit\"\n");
    service.is_silent();
    run("ip link add late type veth peer name late-pod");
    service.says("late: 30mbit");
    run("ip link del late");
    run("ip link add late type veth peer name late-pod");
    service.says("late: 30mbit");
    drop(service);

    // These changes happen without a running service.
    fs::remove_file(format!("{FOLDER}/late")).unwrap();
    fs::remove_file(format!("{FOLDER}/pod3")).unwrap();
    write("pod1", "rate = \"50mbit\"\n");
    fs::remove_file(format!("{FOLDER}/a name with blanks")).unwrap();
    let mut once = Command::new("weirgate");
    let once = once.args(["pods", "--once", FOLDER]).output().unwrap();
    let message = String::from_utf8_lossy(&once.stderr).into_owned();
    assert!(once.status.success(), "{message}");
    // For a device that is down, the kernel shows `noop`.
    assert!(!root("late").contains("cake"), "{message}");
    assert!(root("pod1").contains("bandwidth 50Mbit"), "{message}");
    assert!(root("pod3").contains("pfifo 77:"));
    write("pod2", "rate = 7\n");
    let mut once = Command::new("weirgate");
    let once = once.args(["pods", "--once", "--json", FOLDER]).output();
    let once = once.unwrap();
    assert_eq!(once.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&once.stdout).unwrap();
    assert_eq!(document["problems"][0]["line"], 1, "{document}");
    assert_eq!(document["problems"][0]["column"], 8, "{document}");
    let file = document["problems"][0]["file"].as_str().unwrap();
    assert!(file.ends_with("/pod2"), "{document}");
}

/// Receives the bulk data and counts the bytes of each pod. It reads all connections together at an
/// interval and copies no data. The machine has one processor, so a thread that wakes for each
/// packet would dominate the measurement.
fn receive_bulk(counts: &[AtomicU64]) {
    let listener = TcpListener::bind(("0.0.0.0", BULK)).expect("a port");
    let streams = listener.incoming().take(USED * CONNECTIONS).map(|stream| {
        let stream = stream.expect("a connection");
        let pod = stream.local_addr().expect("an address").ip();
        let own = (0..USED).find(|other| address(*other) == pod);
        (stream, &counts[own.expect("a pod")])
    });
    let streams: Vec<_> = streams.collect();
    let mut space = vec![0; 1 << 20];
    let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    loop {
        for (stream, count) in &streams {
            while let Ok((_, bytes @ 1..)) = recv(stream, &mut space[..], flags) {
                count.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }
        sleep(LOOK);
    }
}

/// Receives the sparse flow's datagrams; returns the delay of each in ms.
fn receive_sparse(end: &AtomicBool, begin: Instant) -> Vec<f64> {
    let socket = UdpSocket::bind(("0.0.0.0", SPARSE)).expect("a port");
    let wait = Some(Duration::from_millis(100));
    socket.set_read_timeout(wait).expect("a timeout");
    let (mut waits, mut space) = (Vec::new(), [0; 64]);
    while !end.load(Ordering::Relaxed) {
        if socket.recv(&mut space).is_ok() {
            let now = begin.elapsed().as_nanos() as u64;
            let sent = u64::from_ne_bytes(*space.first_chunk().expect("a time"));
            waits.push(now.saturating_sub(sent) as f64 / 1e6);
        }
    }
    waits
}

/// Changes the rates of pods. Returns the time in ms from before each file is written until the
/// change is reported as made and read back.
fn changes(service: &Service, pods: Range<usize>, first: usize) -> Vec<f64> {
    let one = |(number, pod): (usize, usize)| {
        let rate = first + number;
        let before = Instant::now();
        write(&format!("pod{pod}"), &format!("rate = \"{rate}mbit\"\n"));
        let reported = service.says(&format!("pod{pod}: {rate}mbit"));
        let took = (reported - before).as_secs_f64() * 1e3;
        let tc = format!("bandwidth {rate}Mbit");
        assert!(root(&format!("pod{pod}")).contains(&tc), "{tc}");
        took
    };
    pods.enumerate().map(one).collect()
}

/// Returns the bytes that the devices of the receiving pods have sent, with Ethernet's header.
fn sent_by_devices() -> Vec<u64> {
    let read = |pod| fs::read_to_string(format!("/sys/class/net/pod{pod}/statistics/tx_bytes"));
    let sent = |pod| read(pod).expect("a device").trim().parse();
    (0..USED).map(|pod| sent(pod).expect("a number")).collect()
}

/// Returns the lowest and the highest rate between two readings, in Mbit/s.
fn range(first: &[u64], last: &[u64], seconds: f64) -> (f64, f64) {
    let rate = |(first, last): (&u64, &u64)| (last - first) as f64 * 8e-6 / seconds;
    let rates = first.iter().zip(last).map(rate);
    rates.fold((f64::MAX, 0.0), |(least, most), rate| {
        (least.min(rate), most.max(rate))
    })
}

/// Returns the value below which the given share of the values is.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share).ceil() as usize;
    values[at.clamp(1, values.len()) - 1]
}

/// Twenty of a thousand pods receive as much as they may, by TCP that sends 64 kB at once. A sparse
/// flow to each of them has a low delay, and a change of one pod takes effect at once.
#[test]
#[ignore = "runs in the lab's kernel"]
fn a_thousand_pods_have_their_rates() {
    let begin = Instant::now();
    build(PODS);
    println!(
        "{PODS} pods are there after {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    for pod in 0..PODS {
        write(&format!("pod{pod}"), "rate = \"40mbit\"\n");
    }
    let (before, begin) = (free_kb(), Instant::now());
    let service = Service::start();
    for _ in 0..PODS {
        // Devices are reported in the order of their names, so the last one reported is not the
        // last number.
        service.says(": 40mbit");
    }
    let start = begin.elapsed().as_secs_f64();
    let each = (before.saturating_sub(free_kb())) as f64 / PODS as f64;
    println!("all are set after {start:.2} s; {each:.0} kB each");
    println!("the service holds {} kB", service.resident_kb());
    sleep(SETTLED);
    let mut idle = changes(&service, USED..2 * USED, 50);
    println!(
        "a change without traffic: {:.2} ms at most, {:.2} in the middle",
        quantile(&mut idle, 1.0),
        quantile(&mut idle, 0.5)
    );

    let counts: Arc<Vec<AtomicU64>> = Arc::new((0..USED).map(|_| AtomicU64::new(0)).collect());
    let counted = Arc::clone(&counts);
    let _bulk = among_pods(move || receive_bulk(&counted));
    let end = Arc::new(AtomicBool::new(false));
    let (ended, begin) = (Arc::clone(&end), Instant::now());
    let waits = among_pods(move || receive_sparse(&ended, begin));
    sleep(Duration::from_millis(100));
    for pod in (0..USED * CONNECTIONS).map(|number| number % USED) {
        let mut stream = TcpStream::connect((address(pod), BULK)).expect("a pod");
        thread::spawn(move || {
            let bytes = vec![7; 1 << 16];
            while stream.write_all(&bytes).is_ok() {}
        });
    }
    sleep(BEFORE);
    let bytes = |counts: &[AtomicU64]| -> Vec<u64> {
        counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .collect()
    };
    let (sent_before, idle_before) = (sent_by_devices(), idle_ms());
    let (first, since) = (bytes(&counts), Instant::now());
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let mut sent = 0_u32;
    while since.elapsed() < MEASURED {
        // The pods take turns, so that the datagrams do not arrive all at once.
        let pod = sent as usize % USED;
        let mut payload = [0; 64];
        payload[..8].copy_from_slice(&(begin.elapsed().as_nanos() as u64).to_ne_bytes());
        socket
            .send_to(&payload, (address(pod), SPARSE))
            .expect("a datagram");
        sent += 1;
        let next = PACE * sent / USED as u32;
        sleep(next.saturating_sub(since.elapsed()));
    }
    let (last, seconds) = (bytes(&counts), since.elapsed().as_secs_f64());
    let used = range(&sent_before, &sent_by_devices(), seconds);
    let busy = 1.0 - (idle_ms() - idle_before) as f64 / 1e3 / seconds;
    println!(
        "the machine's one processor was busy {:.0} % of that time",
        busy * 1e2
    );
    // Change pods without traffic, and pods that receive. The service shares the processor with all
    // senders and receivers, so the longest time says nothing about it.
    let waited = service.waited_ms();
    let mut loaded = changes(&service, USED..2 * USED, 80);
    loaded.extend(changes(&service, 0..USED, 50));
    sleep(Duration::from_millis(200));
    end.store(true, Ordering::Relaxed);
    let mut waits = waits.join().expect("the receiver");

    let payload = range(&first, &last, seconds);
    let (count, p99) = (waits.len(), quantile(&mut waits, 0.99));
    println!(
        "{USED} devices send {:.2} to {:.2} Mbit/s; TCP carries {:.2} to {:.2}",
        used.0, used.1, payload.0, payload.1
    );
    println!(
        "the sparse flow: {count} of {sent} arrived; p50 {:.2} ms, p99 {p99:.2} ms, at most {:.2}",
        quantile(&mut waits, 0.5),
        quantile(&mut waits, 1.0)
    );
    println!(
        "a change under traffic: {:.2} ms at most, {:.2} in the middle; of {:.0} ms of all {} \
         the service waited {:.0} for the processor",
        quantile(&mut loaded, 1.0),
        quantile(&mut loaded, 0.5),
        loaded.iter().sum::<f64>(),
        loaded.len(),
        service.waited_ms() - waited
    );
    assert!(used.0 > RATE * 0.98 && used.1 < RATE * 1.01, "{used:?}");
    assert_eq!(count, sent as usize);
    assert!(p99 <= LATEST, "{p99}");
    assert!(quantile(&mut idle, 1.0) <= CHANGED, "{idle:?}");
    assert!(quantile(&mut loaded, 0.5) <= CHANGED, "{loaded:?}");
}
