// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part that runs in the guest: a service, a hundred datagrams a second over the loopback
//! device, and a clock that is set forward and back by hours.

use rustix::process::Pid;
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, sleep};
use std::time::Duration;

const ADDRESS: &str = "127.0.0.1:9617";
const HISTORY: &str = "/run/history";
/// Datagrams per second, each of which the kernel counts once as sent. The page's and the probe's
/// own packets add a few tens.
const RATE: u64 = 100;
const BETWEEN: std::ops::RangeInclusive<f64> = 90.0..=160.0;
/// The time between two changes of the clock, and the changes in seconds.
const QUIET: Duration = Duration::from_secs(10);
const SET: [i64; 4] = [3600, -7200, -5, 3605];

/// Runs a command line that must succeed.
pub fn run(line: &str) {
    let mut words = line.split(' ');
    let status = Command::new(words.next().unwrap()).args(words).status();
    assert!(status.unwrap().success(), "{line}");
}

/// A service, which is killed when the test ends. Otherwise a failed test would leave it, and the
/// guest would wait while its output is open.
pub struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Service {
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

/// Starts a service and waits until it answers.
pub fn begin(more: &[&str]) -> Service {
    begin_as(0, HISTORY, more)
}

/// Does the same as a given user.
pub fn begin_as(user: u32, history: &str, more: &[&str]) -> Service {
    let mut service = Command::new("weirgate")
        .args(["watch", "--listen", ADDRESS, "--history", history])
        .args(more)
        .uid(user)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(service.stderr.take().unwrap()).lines();
    let service = Service(service);
    let mut said = Vec::new();
    let listens = lines.by_ref().map_while(Result::ok).any(|line| {
        let listens = line.contains("the page is at");
        said.push(line);
        listens
    });
    assert!(listens, "{said:?}");
    thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    service
}

fn ask(path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(ADDRESS).unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Returns the status and the body of an answer.
pub fn answer(path: &str) -> (u16, String) {
    let mut answer = String::new();
    ask(path).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

pub fn get(path: &str) -> Value {
    let (_, body) = answer(path);
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

/// Returns the events of the page's live connection.
fn page() -> Receiver<Value> {
    let (send, looks) = channel();
    thread::spawn(move || {
        for line in BufReader::new(ask("/api/live")).lines() {
            let Ok(line) = line else { return };
            let event = line.strip_prefix("data: ").map(serde_json::from_str);
            if let Some(event) = event
                && send.send(event.unwrap()).is_err()
            {
                return;
            }
        }
    });
    looks
}

fn set_clock(by: i64) {
    let now = clock_gettime(ClockId::Realtime);
    let new = Timespec {
        tv_sec: now.tv_sec + by,
        ..now
    };
    clock_settime(ClockId::Realtime, new).unwrap();
}

/// Returns every point of a series.
pub fn points(series: &str) -> Vec<(i64, i64, f64, i64)> {
    let encoded = series.replace('{', "%7B").replace('}', "%7D");
    let encoded = encoded.replace('"', "%22").replace('=', "%3D");
    let read = get(&format!("/api/read?series={encoded}"));
    let points = read["series"][series]["points"].as_array().unwrap();
    let whole = |point: &Value, place: usize| point[place].as_i64().unwrap();
    points
        .iter()
        .map(|point| {
            let (start, end) = (whole(point, 0), whole(point, 1));
            let rate = whole(point, 5) as f64 * 1000.0 / (end - start) as f64;
            (start, end, rate, whole(point, 4))
        })
        .collect()
}

#[test]
#[ignore = "runs in the guest"]
fn clock_is_set() {
    run("ip link set lo up");
    fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647").unwrap();
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    thread::spawn(move || {
        loop {
            let to = receiver.local_addr().unwrap();
            receiver.send_to(&[0; 100], to).unwrap();
            receiver.recv(&mut [0; 200]).unwrap();
            sleep(Duration::from_millis(1000 / RATE));
        }
    });
    let service = begin(&["--probe", "here=127.0.0.1"]);
    let looks = page();
    for by in SET {
        sleep(QUIET);
        set_clock(by);
    }
    sleep(QUIET);

    // The page went on with one sample a second.
    let looks: Vec<Value> = looks.try_iter().collect();
    println!("{} looks came", looks.len());
    assert!(looks.len() >= 45, "{}", looks.len());
    for look in &looks {
        let interval = look["interval_ms"].as_i64().unwrap();
        assert!((900..=1100).contains(&interval), "{interval}");
    }
    let check = || {
        let sent = points("device_sent_packets{device=\"lo\"}");
        for (start, end, rate, _) in &sent {
            assert!(BETWEEN.contains(rate), "{rate} from {start} to {end}");
        }
        let round_trips = points("probe_rtt_seconds{probe=\"here\",host=\"127.0.0.1\"}");
        let longest = round_trips.iter().map(|point| point.3).max().unwrap();
        println!("{} rows, round trips of at most {longest} us", sent.len());
        assert!(longest < 20_000, "{longest} us");
        sent
    };
    let sent = check();
    // Five seconds of clock time occurred twice; the later samples are shown.
    let seconds: i64 = sent.iter().map(|point| point.1 - point.0).sum();
    assert!((38_000..=51_000).contains(&seconds), "{seconds}");
    let events = get("/api/events?from=0&to=9999999999999");
    let mut texts: Vec<String> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["kind"] == "clock")
        .map(|event| event["text"].as_str().unwrap().to_owned())
        .collect();
    texts.sort();
    println!("{texts:?}");
    assert_eq!(texts.len(), SET.len(), "{texts:?}");
    let mut steps: Vec<f64> = texts
        .iter()
        .map(|text| {
            let words: Vec<&str> = text.split(' ').collect();
            let by: f64 = words[words.len() - 2].parse().unwrap();
            if text.contains("back") { -by } else { by }
        })
        .collect();
    steps.sort_by(f64::total_cmp);
    let mut wanted = SET;
    wanted.sort_unstable();
    for (step, wanted) in steps.iter().zip(wanted) {
        assert!((step - wanted as f64).abs() < 0.1, "{texts:?}");
    }

    // A service that was killed while the clock is behind the file's last time must open the file
    // again.
    set_clock(-3600);
    sleep(QUIET);
    drop(service);
    let service = begin(&["--probe", "here=127.0.0.1"]);
    sleep(QUIET);
    let after = check();
    assert!(
        after.len() >= sent.len() + 12,
        "{} after {}",
        after.len(),
        sent.len()
    );
    drop(service);
}
