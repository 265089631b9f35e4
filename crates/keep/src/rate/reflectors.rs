// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reflectors of a line, with sockets that follow the line's address.
//!
//! A connected socket keeps the source address that it was given first. After a new PPPoE session
//! or DHCP lease, this address is gone: nothing can be sent any more, or nobody can answer.

use crate::clock::{self, SECOND};
use crate::rate::reflector::{Answer, Asked};
use rustix::io::Errno;
use std::io;
use std::net::IpAddr;
use std::task::{Context, Poll};
use weirgate_state::DeviceName;

/// How long a failed attempt to open a socket keeps off the next one.
const AGAIN: u64 = SECOND;

/// After this time without an answer, the source address may be one that is gone.
const QUIET: u64 = 3 * SECOND;

/// The reflectors of one line.
#[derive(Debug)]
pub(crate) struct Reflectors {
    all: Vec<Reflector>,
    dscp: u8,
    /// The device through which requests leave, if routes do not decide that.
    through: Option<DeviceName>,
}

#[derive(Debug)]
struct Reflector {
    address: IpAddr,
    /// The identifier that distinguishes its answers from those to others.
    own: u16,
    /// `None` while there is no route.
    asked: Option<Asked>,
    /// When the last attempt to open the socket was made, and when the last answer came.
    opened: u64,
    heard: u64,
}

impl Reflectors {
    /// Opens sockets in the calling thread's namespace, bound to a device if one is given. A
    /// reflector without a route gets its socket later; other errors are returned with its address.
    pub(crate) fn open(
        addresses: &[IpAddr],
        dscp: u8,
        through: Option<DeviceName>,
    ) -> Result<Self, (IpAddr, io::Error)> {
        let now = clock::now();
        let mut all = Vec::new();
        for (number, address) in addresses.iter().enumerate() {
            let own = (std::process::id() as u16).wrapping_add(number as u16);
            let asked = match Asked::open(*address, dscp, own, through.as_ref()) {
                Ok(asked) => Some(asked),
                Err(error) if has_no_route(&error) => None,
                Err(error) => return Err((*address, error)),
            };
            all.push(Reflector {
                address: *address,
                own,
                asked,
                opened: now,
                heard: now,
            });
        }
        Ok(Self { all, dscp, through })
    }

    /// Returns the number of reflectors.
    pub(crate) const fn len(&self) -> usize {
        self.all.len()
    }

    /// Sends a request to a reflector. If it cannot be sent, it counts as lost. Then, or after
    /// [`QUIET`], a new socket is opened.
    pub(crate) fn ask(&mut self, number: usize, id: u16) {
        let (now, dscp) = (clock::now(), self.dscp);
        let Some(one) = self.all.get_mut(number) else {
            return;
        };
        let sent = one
            .asked
            .as_mut()
            .is_some_and(|asked| asked.ask(id).is_ok());
        let due = if sent {
            one.opened.max(one.heard) + QUIET
        } else {
            one.opened + AGAIN
        };
        if now < due {
            return;
        }
        one.opened = now;
        // Without a route, the present socket may be the better one.
        let opened = Asked::open(one.address, dscp, one.own, self.through.as_ref());
        if let Ok(mut asked) = opened {
            if !sent {
                // What cannot be sent counts as lost.
                let _ = asked.ask(id);
            }
            one.asked = Some(asked);
        }
    }

    /// Returns the next answer when there is one, with the number of its reflector.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(usize, io::Result<Answer>)> {
        for (number, one) in self.all.iter_mut().enumerate() {
            let Some(asked) = &mut one.asked else {
                continue;
            };
            if let Poll::Ready(answer) = asked.poll(cx) {
                if answer.is_ok() {
                    one.heard = clock::now();
                } else {
                    one.asked = None;
                }
                return Poll::Ready((number, answer));
            }
        }
        Poll::Pending
    }
}

/// Returns whether a socket could not be connected because there is no device, route or source
/// address yet.
pub(crate) fn has_no_route(error: &io::Error) -> bool {
    let gone = [Errno::NODEV, Errno::NXIO].map(|errno| Some(errno.raw_os_error()));
    gone.contains(&error.raw_os_error())
        || matches!(
            error.kind(),
            io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::AddrNotAvailable
                | io::ErrorKind::NetworkDown
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    use std::fs;
    use std::future::poll_fn;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::Duration;
    use tokio::time::{Instant, timeout_at};

    /// The far end of the line, in a network namespace of its own.
    struct Far(Child);

    impl Far {
        fn new() -> Self {
            let mut far = Command::new("unshare")
                .args(["--net", "sh", "-c", "echo ready; exec cat"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(far.stdout.as_mut().unwrap())
                .read_line(&mut line)
                .unwrap();
            assert_eq!(line, "ready\n", "this test needs root: it makes namespaces");
            Self(far)
        }
    }

    impl Drop for Far {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    fn run(line: &str) {
        let mut words = line.split(' ');
        let status = Command::new(words.next().unwrap()).args(words).status();
        assert!(status.unwrap().success(), "{line}");
    }

    /// Sends a request every 100 ms; returns whether one is answered within this time.
    async fn answers(reflectors: &mut Reflectors, seconds: u64) -> bool {
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut id = 0;
        while Instant::now() < end {
            id += 1;
            reflectors.ask(0, id);
            let soon = Instant::now() + Duration::from_millis(100);
            let answer = timeout_at(soon, poll_fn(|cx| reflectors.poll(cx))).await;
            if matches!(answer, Ok((0, Ok(_)))) {
                return true;
            }
        }
        false
    }

    async fn addresses_come_and_go(far: &Far) {
        let pid = far.0.id();
        let at_far = format!("nsenter --target {pid} --net ip");
        for line in [
            &format!("ip link add wan type veth peer name far netns {pid}"),
            &format!("{at_far} link set far up"),
            &format!("{at_far} address add 192.0.2.1/24 dev far"),
            &format!("{at_far} address add 2001:db8::1/64 dev far nodad"),
            "ip link set wan up",
        ] {
            run(line);
        }
        let permitted = fs::read_to_string("/proc/sys/net/ipv4/ping_group_range");
        assert_eq!(permitted.unwrap(), "1\t0\n", "nobody, as is the default");
        for (host, first, second) in [
            ("192.0.2.1", "192.0.2.2/24", "192.0.2.3/24"),
            ("2001:db8::1", "2001:db8::2/64", "2001:db8::3/64"),
        ] {
            let nodad = if host.contains(':') { " nodad" } else { "" };
            let mut reflectors = Reflectors::open(&[host.parse().unwrap()], 0, None).unwrap();
            assert!(!answers(&mut reflectors, 1).await, "{host} has no route");
            run(&format!("ip address add {first} dev wan{nodad}"));
            assert!(
                answers(&mut reflectors, 10).await,
                "{host}, the first address"
            );
            run(&format!("ip address del {first} dev wan"));
            run(&format!("ip address add {second} dev wan{nodad}"));
            assert!(
                answers(&mut reflectors, 10).await,
                "{host}, another address"
            );
        }
    }

    #[test]
    fn a_line_with_another_address_is_probed_from_it() {
        let far = Far::new();
        let test = move || {
            #[expect(unsafe_code, reason = "unshare is unsafe for other flags' sake")]
            // SAFETY: the thread gets its own network namespace, and ends with the test. Its file
            // descriptors stay shared.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(addresses_come_and_go(&far));
        };
        thread::spawn(test).join().unwrap();
    }
}
