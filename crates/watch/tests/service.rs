// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the service with friendly and hostile clients.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod running;

use running::{Running, config, refused};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weirgate_history::Kind;
use weirgate_watch::{FileStorage, Listen, Sources};

/// A service for this machine's own devices, which ends when this is dropped.
struct Service {
    running: Running,
    folder: tempfile::TempDir,
}

impl Service {
    fn start() -> Self {
        Self::of(tempfile::tempdir().unwrap())
    }

    /// Starts a service with the folder's contents.
    fn of(folder: tempfile::TempDir) -> Self {
        let listen = Listen::Address("127.0.0.1:0".parse().unwrap());
        Self {
            running: Running::start(config(folder.path(), listen)),
            folder,
        }
    }

    /// Sends bytes, and returns the answer until the connection ends.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.running.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, path: &str) -> String {
        self.raw(
            format!(
                "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                self.running.address()
            )
            .as_bytes(),
        )
    }

    /// Returns the body of an answer, after the first sample.
    fn body(&self, path: &str) -> String {
        let answer = self.get(path);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Returns the first event of the page.
    fn live(&self) -> String {
        let mut stream = TcpStream::connect(self.running.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        stream
            .write_all(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        let mut bytes = [0; 8192];
        while !text.contains("\n\n") || !text.contains("data: ") {
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        text
    }
}

#[test]
fn the_page_its_data_and_the_history_are_served() {
    let service = Service::start();
    let page = service.get("/");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "x-content-type-options: nosniff",
        "x-frame-options: DENY",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(page.contains(header), "{header} in {page}");
    }
    let size = [
        "/",
        "/watch.js",
        "/circuits.js",
        "/figures.js",
        "/series.js",
        "/tables.js",
        "/watch.css",
    ]
    .map(|file| service.body(file).len());
    assert!(size.iter().sum::<usize>() < 300_000);
    let live = service.live();
    assert!(live.contains("text/event-stream"), "{live}");
    let now: serde_json::Value = serde_json::from_str(&service.body("/api/now")).unwrap();
    let devices = now["objects"].as_array().unwrap();
    assert!(
        devices
            .iter()
            .any(|one| one["sort"] == "device" && one["labels"]["device"] == "lo")
    );
    // The history has the values, under the metrics' names.
    let series: serde_json::Value = serde_json::from_str(&service.body("/api/series")).unwrap();
    let name = "device_received_bytes{device=\"lo\"}";
    assert!(
        series["series"].as_array().unwrap().contains(&name.into()),
        "{series}"
    );
    let path = "/api/read?series=device_received_bytes%7Bdevice%3D%22lo%22%7D";
    let read: serde_json::Value = serde_json::from_str(&service.body(path)).unwrap();
    assert!(
        !read["series"][name]["points"]
            .as_array()
            .unwrap()
            .is_empty(),
        "{read}"
    );
    assert!(read["events"][0]["text"] == "watching begins", "{read}");
    // A series that is named twice is read once.
    let twice: serde_json::Value =
        serde_json::from_str(&service.body(&format!("{path}&{}", &path[10..]))).unwrap();
    assert_eq!(twice["series"].as_object().unwrap().len(), 1, "{twice}");
    let csv = service.body("/api/read.csv?series=device_received_bytes%7Bdevice%3D%22lo%22%7D");
    assert!(
        csv.starts_with("series,start_ms,end_ms,mean,least,most,counted,known\r\n\"device_"),
        "{csv}"
    );
    let metrics = service.body("/metrics");
    assert!(
        metrics.contains("weirgate_device_received_bytes_total{device=\"lo\"} "),
        "{metrics}"
    );
    assert!(metrics.ends_with("# EOF\n"));
}

#[test]
fn hostile_requests_are_refused_and_change_nothing() {
    let service = Service::start();
    for (request, status) in [
        (
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            "405",
        ),
        (
            "DELETE /api/now HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "405",
        ),
        (
            "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "404",
        ),
        (
            "GET /api/now HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
            "421",
        ),
        (
            "GET /api/now HTTP/1.1\r\nHost: 127.0.0.1.evil.example:80\r\nConnection: close\r\n\r\n",
            "421",
        ),
        (
            "GET /api/read?from=a HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n",
            "400",
        ),
        (
            "GET /api/read?from=5&to=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "400",
        ),
        (
            "GET /api/read?step=-9223372036854775808&from=-9223372036854775808&to=9223372036854775807 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "200",
        ),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = service.raw(request.as_bytes());
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{request}: {answer}"
        );
    }
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a".repeat(100_000)
    );
    assert!(!service.raw(long.as_bytes()).starts_with("HTTP/1.1 200"));
    let name = "GET /api/read?series=%3Cscript%3E%22%0a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = service.raw(name.as_bytes());
    assert!(
        answer.contains("content-type: application/json"),
        "{answer}"
    );
    assert!(answer.contains("\"<script>\\\"\\u000a\""), "{answer}");
    for (query, status) in [
        ("", "200"),
        ("?q=%3Cscript%3E%00%0A&order=use&from=10000", "200"),
        ("?device=..%2F..%2Fetc&name=%22", "200"),
        ("?q=%f", "400"),
        ("?q=%ff", "400"),
        ("?order=%00", "400"),
        ("?from=-1", "400"),
        ("?from=0&to=1", "400"),
        (&*format!("?q={}", "a".repeat(61)), "400"),
    ] {
        let answer = service.get(&format!("/api/circuits{query}"));
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{query}: {answer}"
        );
        // This machine has none.
        let has_none = answer.ends_with("{\"devices\":[],\"refused\":null}");
        assert_eq!(has_none, status == "200", "{query}: {answer}");
    }
    let head = service.raw(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

#[test]
fn clients_that_say_nothing_do_not_keep_others_out() {
    let service = Service::start();
    // More connections than permitted; they are closed at their time limit.
    let silent: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(service.running.address()).unwrap())
        .collect();
    assert!(service.get("/api/about").starts_with("HTTP/1.1 200"));
    drop(silent);
}

/// Clients of the event stream leave room for others, and one too many is refused.
#[test]
fn who_looks_on_does_not_keep_others_out() {
    let service = Service::start();
    let ask = b"GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut followers = Vec::new();
    for place in 0..26 {
        let mut stream = TcpStream::connect(service.running.address()).unwrap();
        stream.write_all(ask).unwrap();
        let mut line = [0; 12];
        stream.read_exact(&mut line).unwrap();
        let expected = if place < 24 { "200" } else { "503" };
        assert_eq!(&line, format!("HTTP/1.1 {expected}").as_bytes(), "{place}");
        followers.push(stream);
    }
    assert!(service.get("/api/about").starts_with("HTTP/1.1 200"));
    drop(followers);
}

/// A power failure loses at most the last five seconds and the time between samples.
#[test]
fn the_file_is_never_far_behind() {
    let service = Service::start();
    let path = service.folder.path().join("deep/history");
    let begin = Instant::now();
    let (mut worst, mut reads) = (0, 0);
    while begin.elapsed() < Duration::from_secs(12) {
        std::thread::sleep(Duration::from_millis(50));
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let copy = FileStorage::open_reading(&path).unwrap();
        let Some((_, last)) = copy.span() else {
            // Nothing was written yet.
            assert!(begin.elapsed() < Duration::from_secs(5));
            continue;
        };
        worst = worst.max(wall.as_millis() as i64 - last);
        reads += 1;
    }
    println!("of {reads} cuts, the worst lost {worst} ms");
    assert!(reads > 20, "{reads}");
    assert!(worst <= 5_200, "{worst} ms");
}

/// Clients that request much and read slowly do not make the service buffer an answer for each.
/// Sampling and other requests continue, and slow clients are disconnected.
#[test]
fn who_asks_for_much_and_reads_little_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/history");
    let rows = 90_000_i64;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = now.as_millis() as i64;
    let mut history = FileStorage::open(&path, 40_000_000).unwrap();
    let name = "class_sent_bytes{device=\"wan\",direction=\"up\",class=\"greedy\",handle=\"2:99\"}";
    for row in 1..=rows {
        let value = [(name, Kind::Counter, row % 1000)];
        history
            .append(now - (rows - row) * 1000, 1000, value)
            .unwrap();
        if row % 600 == 0 {
            history.commit().unwrap();
        }
    }
    history.commit().unwrap();
    drop(history);
    let service = Service::of(folder);
    let ask = "GET /api/read.csv?series=class_sent_bytes%7Bdevice%3D%22wan%22%2Cdirection%3D%22up%22%2Cclass%3D%22greedy%22%2Chandle%3D%222:99%22%7D HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let whole = service.raw(ask.as_bytes());
    assert!(whole.len() > 8_000_000, "{}", whole.len());
    assert!(whole.contains("transfer-encoding: chunked"));
    let before = resident();
    let greedy: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(service.running.address()).unwrap();
            stream.write_all(ask.as_bytes()).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_secs(3));
    let more = resident().saturating_sub(before);
    println!(
        "20 answers of {} kB that nobody reads: {more} kB more",
        whole.len() / 1000
    );
    assert!(more < 40_000, "{more} kB");
    // At most two answers that were read are in memory; other requests wait for their turn.
    for path in ["/metrics", "/api/about", "/api/now"] {
        let begin = Instant::now();
        assert!(service.get(path).starts_with("HTTP/1.1 200"), "{path}");
        assert!(begin.elapsed() < Duration::from_secs(2), "{path}");
    }
    let seen = || {
        let text = service.get("/api/now");
        let body = text.split_once("\r\n\r\n").unwrap().1.to_owned();
        let now: serde_json::Value = serde_json::from_str(&body).unwrap();
        now["time_ms"].as_i64().unwrap()
    };
    let first = seen();
    std::thread::sleep(Duration::from_secs(2));
    let looked = seen() - first;
    assert!(looked >= 1_000, "{looked} ms");
    // One more client is told to retry, within the time that it waits for a place.
    let begin = Instant::now();
    let busy = service.raw(ask.as_bytes());
    assert!(busy.starts_with("HTTP/1.1 503"), "{busy:.60}");
    assert!(busy.contains("retry-after: 10"));
    assert!(begin.elapsed() < Duration::from_secs(15));
    // A graph with few points is served meanwhile, because it has separate room.
    let few = service.get(&format!(
        "/api/read?series=a&from={}&to={now}",
        now - 60_000
    ));
    assert!(few.starts_with("HTTP/1.1 200"), "{few:.60}");
    drop(greedy);
}

/// Returns the resident memory of this process in kilobytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.trim().parse().unwrap()
}

#[test]
fn a_unix_socket_and_a_second_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    // A leftover socket without a listener.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let first = config(folder.path(), Listen::Socket(path.clone()));
    let second = config(folder.path(), Listen::Socket(folder.path().join("other")));
    let first = Running::start(first);
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream
        .write_all(b"GET /api/about HTTP/1.0\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
    let busy = refused(second);
    assert!(
        busy.contains("another `weirgate watch` writes this history"),
        "{busy}"
    );
    first.end();
    // A file that is not a socket is left alone.
    std::fs::write(
        folder.path().join("deep/history"),
        "not mine, and long enough to tell",
    )
    .unwrap();
    let third = config(folder.path(), Listen::Socket(folder.path().join("third")));
    let foreign = refused(third);
    assert!(foreign.contains("not a history of weirgate's"), "{foreign}");
}

#[test]
fn others_than_this_machine_are_not_let_in_just_so() {
    let folder = tempfile::tempdir().unwrap();
    let open = Listen::Address("0.0.0.0:0".parse().unwrap());
    let why = refused(config(folder.path(), open));
    assert!(why.contains("--behind-proxy"), "{why}");
    assert!(!folder.path().join("deep").exists());
}

/// Programs load for seconds between the reading of the legend and the first sample.
#[test]
fn a_policy_that_is_applied_during_the_start_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("site.toml");
    let file = std::fs::File::create(&source).unwrap();
    let ago = |seconds| SystemTime::now() - Duration::from_secs(seconds);
    file.set_modified(ago(60)).unwrap();
    let listen = Listen::Address("127.0.0.1:0".parse().unwrap());
    let mut config = config(folder.path(), listen);
    config.sources = Sources::of([source]);
    file.set_modified(ago(2)).unwrap();
    Running::start(config).hears("the legend is read again");
}
