// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Four links that share classes die one after another, with TCP connections over each.

use crate::inside::{FILE, Service};
use crate::net::{SERVER, add_link, build, own_address, router, set, thread_in};
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LINKS: usize = 4;
const PORT: u16 = 7_100;

/// One file of links: they are used in their order.
fn links() -> String {
    let link = |number: usize| {
        format!(
            "[[link]]\nname = \"link{number}\"\ndevice = \"wan{number}\"\ngateway = \"{}\"\n\
             probe = \"{SERVER}\"\n",
            own_address(number, 1)
        )
    };
    let links: String = (0..LINKS).map(link).collect();
    format!("version = 1\n[health]\nsteady = \"3s\"\n{links}")
}

/// The classes of all links.
const SHARED: &str = "[[class]]\nname = \"first\"\nshare = \"20%\"\npriority = 0\nqueue = \"bfifo 60000\"\n\
    [[class]]\nname = \"rest\"\nshare = \"80%\"\nqueue = \"bfifo 60000\"\ndefault = true\n\
    [[rule]]\nclass = \"first\"\nport = 7100\nkeep = true\n\
    [[rule]]\nclass = \"first\"\nlocal-address = \"10.0.0.2\"\nport = 7101\n";

fn policies() -> String {
    let policy = |number: usize| {
        format!(
            "include = \"shared.toml\"\nversion = 1\n[link]\ndevice = \"wan{number}\"\n\
             lan = \"lan\"\nup = \"8mbit\"\ndown = \"{}mbit\"\nlayer = \"ethernet\"\n",
            10 + number
        )
    };
    let all: Vec<String> = (0..LINKS).map(policy).collect();
    all.join("---\n")
}

/// Answers each TCP connection with the address that it comes from, and then with what it gets.
fn serve() {
    thread_in("server", || {
        let listener = TcpListener::bind((SERVER, PORT)).unwrap();
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let IpAddr::V4(from) = stream.peer_addr()?.ip() else {
        return Ok(());
    };
    stream.write_all(&from.octets())?;
    let mut byte = [0];
    while stream.read(&mut byte)? == 1 {
        stream.write_all(&byte)?;
    }
    Ok(())
}

/// Opens a connection from the host; returns it with the router's address that the server sees.
fn connected() -> (TcpStream, IpAddr) {
    let opens = thread_in("host", || {
        let to: SocketAddr = (SERVER.parse::<IpAddr>().unwrap(), PORT).into();
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        let mut address = [0_u8; 4];
        stream.read_exact(&mut address).unwrap();
        (stream, IpAddr::from(address))
    });
    opens.join().unwrap()
}

/// Returns whether a connection still answers.
fn answers(stream: &mut TcpStream) -> bool {
    stream.write_all(b"x").is_ok() && matches!(stream.read(&mut [0]), Ok(1))
}

/// Sends over a connection until it is reset; returns when that was.
fn reset(stream: &mut TcpStream) -> Instant {
    let begin = Instant::now();
    loop {
        let wrote = stream.write_all(b"x").map(|()| 0);
        for outcome in [wrote, stream.read(&mut [0; 64])] {
            if outcome.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset) {
                return Instant::now();
            }
        }
        assert!(begin.elapsed() < Duration::from_secs(15), "it is not reset");
        sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "runs in the guest"]
fn die_in_turn() {
    build();
    (2..LINKS).for_each(add_link);
    fs::write("/run/site.toml", policies()).unwrap();
    fs::write("/run/shared.toml", SHARED).unwrap();
    fs::write(FILE, links()).unwrap();
    let check = format!("weirgate links check {FILE} --policy /run/site.toml");
    println!("{}", router(&check));
    router("weirgate apply /run/site.toml");
    let service = Service::begin();
    service.says("routing: ", Duration::from_secs(5));
    // All links were up from the beginning.
    sleep(Duration::from_secs(1));
    serve();
    for number in 0..LINKS - 1 {
        let (mut stream, from) = connected();
        assert_eq!(from, IpAddr::from(own_address(number, 2)), "link {number}");
        assert!(answers(&mut stream), "the connection over link {number}");
        // The provider drops everything; its router still answers.
        let provider = format!("isp{number}");
        set(&provider, "ipv4/ip_forward", "0");
        let cut = Instant::now();
        let at = reset(&mut stream);
        let down = service.says(
            &format!("link{number} (wan{number}) is down"),
            Duration::from_secs(10),
        );
        println!(
            "link {number}: given up {:?} after the cut, its connection reset {:?} after that",
            down - cut,
            at.saturating_duration_since(down)
        );
        assert!(down - cut <= Duration::from_secs(3));
    }
    // The first link is used again for new connections; those of the last one stay there.
    let (mut last, from) = connected();
    assert_eq!(from, IpAddr::from(own_address(LINKS - 1, 2)));
    set("isp0", "ipv4/ip_forward", "1");
    service.says("link0 (wan0) is up", Duration::from_secs(30));
    let (_, from) = connected();
    assert_eq!(from, IpAddr::from(own_address(0, 2)));
    assert!(answers(&mut last), "the connection over the last link");
    let shown = router("weirgate links show");
    for part in [
        "link3 (wan3) is up",
        "  down first: at least 1",
        "waits at most",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    service.end();
    router("weirgate links remove");
    router("weirgate remove");
}
