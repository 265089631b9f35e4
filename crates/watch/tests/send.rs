// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what receivers get, parsed by another protocol buffers library, and what happens if they
//! refuse.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod running;

use flate2::read::GzDecoder;
use prost::Message as _;
use running::{Running, config};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tempfile::TempDir;
use weirgate_watch::{Config, Kind, Listen, Receiver, Sending};

/// The messages of prometheus/prompb/types.proto and remote.proto.
mod prometheus {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct WriteRequest {
        #[prost(message, repeated, tag = "1")]
        pub timeseries: Vec<TimeSeries>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct TimeSeries {
        #[prost(message, repeated, tag = "1")]
        pub labels: Vec<Label>,
        #[prost(message, repeated, tag = "2")]
        pub samples: Vec<Sample>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Label {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub value: String,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(double, tag = "1")]
        pub value: f64,
        #[prost(int64, tag = "2")]
        pub timestamp: i64,
    }
}

/// The messages of opentelemetry/proto/metrics/v1/metrics.proto.
mod telemetry {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Request {
        #[prost(message, repeated, tag = "1")]
        pub resource_metrics: Vec<ResourceMetrics>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ResourceMetrics {
        #[prost(message, optional, tag = "1")]
        pub resource: Option<Resource>,
        #[prost(message, repeated, tag = "2")]
        pub scope_metrics: Vec<ScopeMetrics>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Resource {
        #[prost(message, repeated, tag = "1")]
        pub attributes: Vec<KeyValue>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct KeyValue {
        #[prost(string, tag = "1")]
        pub key: String,
        #[prost(message, optional, tag = "2")]
        pub value: Option<AnyValue>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct AnyValue {
        #[prost(string, tag = "1")]
        pub string: String,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ScopeMetrics {
        #[prost(message, repeated, tag = "2")]
        pub metrics: Vec<Metric>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Metric {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "3")]
        pub unit: String,
        #[prost(message, optional, tag = "5")]
        pub gauge: Option<Points>,
        #[prost(message, optional, tag = "7")]
        pub sum: Option<Points>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Points {
        #[prost(message, repeated, tag = "1")]
        pub data: Vec<Point>,
        #[prost(int32, tag = "2")]
        pub temporality: i32,
        #[prost(bool, tag = "3")]
        pub monotonic: bool,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Point {
        #[prost(fixed64, tag = "3")]
        pub time: u64,
        #[prost(double, tag = "4")]
        pub value: f64,
        #[prost(message, repeated, tag = "7")]
        pub attributes: Vec<KeyValue>,
    }
}

/// A received request: its head in lower case, and its body.
type Came = (String, Vec<u8>);

/// A receiver that gives the configured answers one after the other, then always 204.
struct HttpReceiver {
    address: SocketAddr,
    came: mpsc::Receiver<Came>,
}

fn receive(answers: Vec<&'static str>, tls: Option<Arc<ServerConfig>>) -> HttpReceiver {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, came) = mpsc::channel();
    // The thread ends when the test drops its channel, or with the process.
    std::thread::spawn(move || {
        let mut answers = answers.into_iter();
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let answer = |stream: &mut dyn Duplex, answer: &str| {
                let came = read(stream);
                let _ = stream.write_all(
                    format!("HTTP/1.1 {answer}\r\nConnection: close\r\n\r\n").as_bytes(),
                );
                came
            };
            let next = answers.next().unwrap_or("204 No Content");
            let came = match &tls {
                None => answer(&mut { stream }, next),
                Some(config) => {
                    let connection = ServerConnection::new(Arc::clone(config)).unwrap();
                    let mut stream = StreamOwned::new(connection, stream);
                    let came = answer(&mut stream, next);
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                    came
                }
            };
            if send.send(came).is_err() {
                return;
            }
        }
    });
    HttpReceiver { address, came }
}

trait Duplex: Read + Write {}
impl Duplex for TcpStream {}
impl Duplex for StreamOwned<ServerConnection, TcpStream> {}

fn read(stream: &mut dyn Duplex) -> Came {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let head = head.to_lowercase();
    let (_, rest) = head.split_once("content-length: ").unwrap();
    let length = rest.split_once("\r\n").unwrap().0.parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (head, body)
}

impl HttpReceiver {
    fn next(&self) -> Came {
        self.came.recv_timeout(Duration::from_mins(1)).unwrap()
    }
}

struct Service {
    running: Running,
    folder: TempDir,
}

impl Service {
    fn start(kind: Kind, receiver: &str, folder: TempDir, authorities: bool) -> Self {
        let sending = Sending {
            receivers: vec![Receiver::parse(kind, receiver).unwrap()],
            every: Duration::from_millis(100),
            labels: [("job", "weirgate"), ("instance", "box 1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            authorities: authorities.then(|| folder.path().join("ca.pem")),
        };
        let listen = Listen::Address("127.0.0.1:0".parse().unwrap());
        let config = Config {
            sending,
            ..config(folder.path(), listen)
        };
        Self {
            running: Running::start(config),
            folder,
        }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.running.address()).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

fn written(body: &[u8]) -> prometheus::WriteRequest {
    let plain = snap::raw::Decoder::new().decompress_vec(body).unwrap();
    prometheus::WriteRequest::decode(&*plain).unwrap()
}

#[test]
fn prometheus_gets_what_it_would_have_scraped() {
    let receiver = receive(
        vec!["503 Busy\r\nRetry-After: 1", "500 Worse", "200 OK"],
        None,
    );
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "Bearer open-sesame\n").unwrap();
    let url = format!(
        "http://{}/api/v1/write?x=1,{}",
        receiver.address,
        secret.display()
    );
    let service = Service::start(Kind::RemoteWrite, &url, folder, false);
    let (head, body) = receiver.next();
    for part in [
        "post /api/v1/write?x=1 http/1.1\r\n",
        "content-encoding: snappy\r\n",
        "content-type: application/x-protobuf\r\n",
        "x-prometheus-remote-write-version: 0.1.0\r\n",
        "authorization: bearer open-sesame\r\n",
        "user-agent: weirgate/",
    ] {
        assert!(head.contains(part), "{part} in {head}");
    }
    // A refused request is repeated unchanged, with nothing in between.
    assert_eq!(receiver.next().1, body);
    assert_eq!(receiver.next().1, body);
    service.running.hears("takes no metrics: it answers 503");
    service.running.hears("takes metrics again");
    let request = written(&body);
    let bytes = request.timeseries.iter().find(|one| {
        let has = |name: &str, value: &str| {
            let mut labels = one.labels.iter();
            labels.any(|label| label.name == name && label.value == value)
        };
        has("__name__", "weirgate_device_received_bytes_total") && has("device", "lo")
    });
    let bytes = bytes.unwrap_or_else(|| panic!("{request:?}"));
    let labels: Vec<(&str, &str)> = bytes
        .labels
        .iter()
        .map(|label| (&*label.name, &*label.value))
        .collect();
    assert_eq!(
        labels,
        [
            ("__name__", "weirgate_device_received_bytes_total"),
            ("device", "lo"),
            ("instance", "box 1"),
            ("job", "weirgate"),
        ]
    );
    let [sample] = &bytes.samples[..] else {
        panic!("{bytes:?}")
    };
    assert!(sample.timestamp > 1_600_000_000_000 && sample.value > 0.0);
    // Each sample is later than the previous one; receivers refuse others.
    let later = written(&receiver.next().1);
    assert!(later.timeseries[0].samples[0].timestamp > sample.timestamp);
    let metrics = service.get("/metrics");
    let labels = format!("{{receiver=\"http://{}/api/v1/write\"}}", receiver.address);
    assert!(metrics.contains(&format!("weirgate_send_lost_total{labels} 0\n")));
    assert!(metrics.contains(&format!("weirgate_send_failing{labels} 0\n")));
    let events = service.get("/api/events");
    assert!(
        events.contains("takes no metrics: it answers 503"),
        "{events}"
    );
    assert!(!events.contains("open-sesame") && !metrics.contains("open-sesame"));
}

#[test]
fn a_collector_gets_the_same_by_otlp_and_tls() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec![String::from("localhost")]).unwrap();
    std::fs::write(folder.path().join("ca.pem"), made.cert.pem()).unwrap();
    let certificate = CertificateDer::from_pem_slice(made.cert.pem().as_bytes()).unwrap();
    let key = made.signing_key.serialize_pem();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let receiver = receive(vec!["400 Bad\r\n\r\nnot like this"], Some(Arc::new(tls)));
    let url = format!("https://localhost:{}", receiver.address.port());
    let service = Service::start(Kind::Otlp, &url, folder, true);
    let (head, first) = receiver.next();
    assert!(head.starts_with("post /v1/metrics http/1.1\r\n"), "{head}");
    assert!(head.contains("content-encoding: gzip\r\n"), "{head}");
    // A request that is refused permanently is not repeated.
    service
        .running
        .hears("refuses metrics: it answers 400 Bad Request: not like this");
    let (_, body) = receiver.next();
    assert_ne!(first, body);
    service.running.hears("takes metrics again");
    let metrics = service.get("/metrics");
    let lost = format!("weirgate_send_lost_total{{receiver=\"{url}/v1/metrics\"}} 1\n");
    assert!(metrics.contains(&lost), "{metrics}");
    let mut plain = Vec::new();
    GzDecoder::new(&*body).read_to_end(&mut plain).unwrap();
    let request = telemetry::Request::decode(&*plain).unwrap();
    let [of_box] = &request.resource_metrics[..] else {
        panic!("{request:?}")
    };
    let value = |pairs: &[telemetry::KeyValue], key: &str| {
        let pair = pairs.iter().find(|pair| pair.key == key);
        pair.map(|pair| pair.value.clone().unwrap().string)
    };
    let whose = &of_box.resource.as_ref().unwrap().attributes;
    assert_eq!(value(whose, "service.name").as_deref(), Some("weirgate"));
    assert_eq!(
        value(whose, "service.instance.id").as_deref(),
        Some("box 1")
    );
    let metrics = &of_box.scope_metrics[0].metrics;
    let named = |name: &str| metrics.iter().find(|one| one.name == name).unwrap();
    let bytes = named("weirgate_device_received_bytes");
    assert_eq!(bytes.unit, "By");
    let sum = bytes.sum.as_ref().unwrap();
    assert!(sum.monotonic && sum.temporality == 2);
    let lo =
        |point: &&telemetry::Point| value(&point.attributes, "device").as_deref() == Some("lo");
    let point = sum.data.iter().find(lo).unwrap();
    assert!(point.value > 0.0 && point.time > 1_600_000_000_000_000_000);
    assert!(named("weirgate_history_series").gauge.is_some());
}

#[test]
fn a_receiver_that_is_not_there_stops_nothing() {
    // A closed port: it was bound a moment ago.
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{gone}/");
    let service = Service::start(Kind::RemoteWrite, &url, folder, false);
    service.running.hears("takes no metrics: ");
    let time = || {
        let now = service.get("/api/now");
        let (_, body) = now.split_once("\r\n\r\n").unwrap();
        let now: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        now["time_ms"].as_i64().unwrap_or(0)
    };
    let begin = time();
    let mut metrics = String::new();
    for _ in 0..600 {
        metrics = service.get("/metrics");
        let waits = metrics.lines().find_map(|line| {
            line.strip_prefix("weirgate_send_waiting{")?
                .rsplit(' ')
                .next()
        });
        if waits.is_some_and(|waits| waits != "0") && time() > begin {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(time() > begin, "it does not look any more");
    assert!(
        metrics
            .lines()
            .any(|line| line.starts_with("weirgate_send_failing{") && line.ends_with(" 1")),
        "{metrics}"
    );
    assert!(Path::new(&service.folder.path().join("deep/history")).exists());
}
