// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests over one netlink socket: batches with an answer for each message, and dumps.
//!
//! A batch is one `sendmsg`. rtnetlink handles all of its messages inside that call, so if the
//! process is killed, either none or all of them are done. nf_tables also makes it a transaction.

use crate::error::{Denial, KernelError, Refusal};
use crate::namespace::cookie_of;
use crate::netlink::fault::{self, FaultAction, Ledger};
use crate::netlink::socket::{ROOM, Socket};
use crate::netlink::wire::{self, Attrs};
use libc::{ENODEV, ENOENT};
use nlink::netlink::message::{
    NLM_F_ACK, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR, NlMsgType, nlmsgerr_attr,
};
use nlink::netlink::nftables::{NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWRULE};
use nlink::netlink::{MessageBuilder, MessageIter, NetlinkSocket, Protocol};
use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use tokio::sync::Mutex;
use weirgate_state::Origin;

/// The message type of a rule's echo.
const NEW_RULE: u16 = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE as u16;

/// Message types that do not exist: one of nf_tables, and one above `RTM_MAX`.
const NO_TABLE_REQUEST: u16 = NFNL_SUBSYS_NFTABLES << 8 | 0xff;
const NO_ROUTE_REQUEST: u16 = 0xfff;

/// How often an interrupted dump is attempted.
const DUMP_ATTEMPTS: usize = 5;

/// One request of a batch: the message, and its description for people.
pub(crate) struct Request {
    pub(crate) message: MessageBuilder,
    pub(crate) object: String,
    pub(crate) origin: Origin,
    /// Whether this is the begin or end of an nf_tables batch, which is only answered if the whole
    /// batch fails.
    pub(crate) frame: bool,
}

/// A socket that handles one exchange at a time.
pub(crate) struct Channel {
    buffered: Mutex<BufferedSocket>,
    /// Whether it is an nf_tables socket; tables may have owners.
    tables: bool,
    ledger: Arc<Ledger>,
}

/// A socket, and the buffer for its datagrams.
struct BufferedSocket {
    socket: Socket,
    room: Vec<u8>,
}

/// The answers to a batch.
#[derive(Default)]
struct Heard {
    /// Every refusal, in order.
    refused: Vec<Refusal>,
    /// The payloads of the rules that were echoed on request, in order.
    rules: Vec<Vec<u8>>,
    /// The socket's error if there were more answers than its receive buffer holds. The first ones
    /// were read.
    lost: Option<KernelError>,
}

impl Heard {
    /// Returns every refusal, or an error if some of them were lost.
    fn all(self) -> Result<Vec<Refusal>, KernelError> {
        self.lost.map_or(Ok(self.refused), Err)
    }
}

/// An answer, with the sequence number of its request.
struct Answer {
    seq: u32,
    errno: i32,
    text: Option<String>,
}

impl Channel {
    /// Opens a socket in the namespace, or in that of the calling thread.
    pub(crate) fn open(
        protocol: Protocol,
        netns: Option<BorrowedFd<'_>>,
        ledger: &Arc<Ledger>,
    ) -> Result<Self, KernelError> {
        let tables = matches!(protocol, Protocol::Netfilter);
        let socket = Socket::Netlink(opened(protocol, netns)?);
        Ok(Self::over(socket, tables, ledger))
    }

    /// Makes a channel from an open socket.
    pub(crate) fn over(socket: Socket, tables: bool, ledger: &Arc<Ledger>) -> Self {
        let room = vec![0; ROOM];
        Self {
            buffered: Mutex::new(BufferedSocket { socket, room }),
            tables,
            ledger: Arc::clone(ledger),
        }
    }

    /// Returns the number of its namespace.
    pub(crate) async fn namespace(&self) -> io::Result<u64> {
        cookie_of(self.buffered.lock().await.socket.kernel()?)
    }

    /// Sends all requests in one call and returns the first refusal, if any.
    /// The kernel goes on after a refusal, except in an nf_tables batch.
    pub(crate) async fn batch(&self, requests: Vec<Request>) -> Result<(), KernelError> {
        self.echoes(requests).await.map(|_| ())
    }

    /// Does the same, and returns the kernel's rules that were echoed (`NLM_F_ECHO`) on request.
    pub(crate) async fn echoes(&self, requests: Vec<Request>) -> Result<Vec<Vec<u8>>, KernelError> {
        let heard = self.exchange(requests, true).await?;
        match (heard.refused.into_iter().next(), heard.lost) {
            (Some(refusal), _) => Err(KernelError::Refused(refusal)),
            (None, Some(lost)) => Err(lost),
            (None, None) => Ok(heard.rules),
        }
    }

    /// Returns a duplicate of the socket, so that another process may close it last.
    pub(crate) async fn second(&self) -> io::Result<OwnedFd> {
        let buffered = self.buffered.lock().await;
        buffered.socket.kernel()?.as_fd().try_clone_to_owned()
    }

    /// Sends all requests in one call and returns every refusal, in order. The requests are queries
    /// or clean-ups, and are not counted.
    pub(crate) async fn answers(
        &self,
        requests: Vec<Request>,
    ) -> Result<Vec<Refusal>, KernelError> {
        self.exchange(requests, false).await?.all()
    }

    /// Does the same for requests that change something, which are counted.
    pub(crate) async fn each(&self, requests: Vec<Request>) -> Result<Vec<Refusal>, KernelError> {
        self.exchange(requests, true).await?.all()
    }

    /// Sends requests and collects the answers. `counted` says that they change something.
    async fn exchange(&self, requests: Vec<Request>, counted: bool) -> Result<Heard, KernelError> {
        let mut buffered = self.buffered.lock().await;
        let BufferedSocket { socket, room } = &mut *buffered;
        // The kernel answers every refusal without being asked. Only the last request asks for an
        // answer, which shows the end; more answers would only fill the socket buffer.
        let last = requests.iter().rposition(|request| !request.frame);
        let mut end = None;
        let mut bytes = Vec::new();
        let mut named = Vec::new();
        let mut killed = false;
        for (index, request) in requests.into_iter().enumerate() {
            let seq = socket.next_seq();
            let mut message = request.message;
            message.set_seq(seq);
            let mut raw = message.finish();
            if Some(index) == last {
                raw[6] |= NLM_F_ACK as u8;
                end = Some(seq);
            }
            match self.action(counted && !request.frame, &request.object) {
                FaultAction::Send => {}
                FaultAction::Spoil => raw[4..6].copy_from_slice(&self.no_type().to_ne_bytes()),
                FaultAction::Kill if named.iter().all(|(_, _, _, frame)| *frame) => fault::die(),
                FaultAction::Kill => killed = true,
            }
            if counted && !request.frame {
                self.ledger.rename(&mut raw);
            }
            bytes.extend_from_slice(&raw);
            named.push((seq, request.object, request.origin, request.frame));
        }
        let Some(end) = end else {
            return Ok(Heard::default());
        };
        socket.make_room(bytes.len());
        socket.send(&bytes).await?;
        if killed {
            fault::die();
        }
        let mut heard = Heard::default();
        let mut over = false;
        while !over {
            let next = socket.next(room).await.map(Cow::into_owned);
            let mut frame = match next {
                // Read what there is: until then the kernel discards every further answer
                // (`netlink_overrun`, net/netlink/af_netlink.c).
                Err(error) if error.is_overrun() => {
                    over = true;
                    heard.lost = Some(error);
                    socket.queued(room)?.map(<[u8]>::to_vec)
                }
                next => Some(next?),
            };
            while let Some(datagram) = frame {
                heard.rules.extend(echoed(&datagram, |seq| {
                    self.tables && named.iter().any(|item| item.0 == seq)
                }));
                for answer in answers(&datagram) {
                    let Some(item) = named.iter().find(|item| item.0 == answer.seq) else {
                        continue;
                    };
                    // A refused frame ends its batch without further answers.
                    over |= answer.seq == end || item.3;
                    if answer.errno != 0 {
                        heard.refused.push(Refusal {
                            object: item.1.clone(),
                            errno: answer.errno,
                            text: answer.text,
                            denial: Denial::of(answer.errno, self.tables && !item.3),
                            origin: item.2.clone(),
                        });
                    }
                }
                // All answers are queued before `sendmsg` returns.
                frame = socket.queued(room)?.map(<[u8]>::to_vec);
            }
        }
        Ok(heard)
    }

    /// Returns what a test wants to happen to a request; uncounted requests are sent.
    fn action(&self, counted: bool, what: &str) -> FaultAction {
        if counted {
            self.ledger.next(what)
        } else {
            FaultAction::Send
        }
    }

    /// Returns a message type that the kernel refuses.
    fn no_type(&self) -> u16 {
        if self.tables {
            NO_TABLE_REQUEST
        } else {
            NO_ROUTE_REQUEST
        }
    }

    /// Sends a request for objects and returns the payload of every answer, without its netlink
    /// header. `what` names the objects in errors. With `single` it is not a dump, and an object
    /// that does not exist is an empty answer.
    pub(crate) async fn get(
        &self,
        message: &MessageBuilder,
        what: &str,
        single: bool,
    ) -> Result<Vec<Vec<u8>>, KernelError> {
        let add = |found: &mut Vec<Vec<u8>>, payload: &[u8]| found.push(payload.to_vec());
        self.fold(message, what, single, add).await
    }

    /// Does the same without storing the payloads. Each one is passed to `add`, which starts with a
    /// new value when the dump is repeated.
    pub(crate) async fn fold<T: Default>(
        &self,
        message: &MessageBuilder,
        what: &str,
        single: bool,
        add: impl Fn(&mut T, &[u8]),
    ) -> Result<T, KernelError> {
        let mut buffered = self.buffered.lock().await;
        for _ in 0..DUMP_ATTEMPTS {
            let mut found = T::default();
            let each = |payload: &[u8]| add(&mut found, payload);
            if attempt(&mut buffered, message.clone(), what, single, each).await? {
                return Ok(found);
            }
        }
        Err(KernelError::Unsteady {
            what: what.to_owned(),
        })
    }
}

/// Opens a socket in the namespace, or in that of the calling thread, with extended error messages.
pub(crate) fn opened(
    protocol: Protocol,
    netns: Option<BorrowedFd<'_>>,
) -> Result<NetlinkSocket, KernelError> {
    let socket = match netns {
        Some(fd) => NetlinkSocket::new_in_namespace(protocol, fd),
        None => NetlinkSocket::new(protocol),
    };
    let failed = |error| KernelError::socket("opening a netlink socket", &error);
    let socket = socket.map_err(failed)?;
    socket.set_ext_ack(true).map_err(failed)?;
    socket.set_cap_ack(true).map_err(failed)?;
    Ok(socket)
}

/// Makes one attempt at a dump. Returns `false` if the kernel reports that the data changed during
/// the dump.
async fn attempt(
    buffered: &mut BufferedSocket,
    mut message: MessageBuilder,
    what: &str,
    single: bool,
    mut each: impl FnMut(&[u8]),
) -> Result<bool, KernelError> {
    let BufferedSocket { socket, room } = buffered;
    let seq = socket.next_seq();
    message.set_seq(seq);
    let mut raw = message.finish();
    let flags = if single { NLM_F_ACK } else { NLM_F_DUMP };
    raw[6] |= flags as u8;
    raw[7] |= (flags >> 8) as u8;
    socket.send(&raw).await?;
    let mut steady = true;
    loop {
        let frame = socket.next(room).await?;
        for message in MessageIter::new(&frame) {
            let Ok((header, payload)) = message else {
                return Err(KernelError::Malformed {
                    what: what.to_owned(),
                });
            };
            if header.nlmsg_seq != seq {
                continue;
            }
            steady &= header.nlmsg_flags & NLM_F_DUMP_INTR == 0;
            match header.nlmsg_type {
                NlMsgType::ERROR | NlMsgType::DONE => {
                    let errno = wire::i32_at(payload, 0).map_or(0, i32::wrapping_neg);
                    let absent = [ENOENT, ENODEV].contains(&errno);
                    if errno != 0 && !absent {
                        let answer = error(seq, header.nlmsg_flags, payload);
                        return Err(KernelError::Refused(Refusal {
                            object: what.to_owned(),
                            errno,
                            text: answer.and_then(|answer| answer.text),
                            denial: Denial::of(errno, false),
                            origin: Origin::default(),
                        }));
                    }
                    return Ok(steady);
                }
                _ => each(payload),
            }
        }
    }
}

/// Returns the error answers of a datagram; number 0 is success.
fn answers(datagram: &[u8]) -> Vec<Answer> {
    MessageIter::new(datagram)
        .map_while(Result::ok)
        .filter(|(header, _)| header.nlmsg_type == NlMsgType::ERROR)
        .filter_map(|(header, payload)| error(header.nlmsg_seq, header.nlmsg_flags, payload))
        .collect()
}

/// Returns the payloads of the rules in a datagram that were echoed to a request.
fn echoed(datagram: &[u8], asked: impl Fn(u32) -> bool) -> Vec<Vec<u8>> {
    MessageIter::new(datagram)
        .map_while(Result::ok)
        .filter(|(header, _)| header.nlmsg_type == NEW_RULE && asked(header.nlmsg_seq))
        .map(|(_, payload)| payload.to_vec())
        .collect()
}

/// Reads `struct nlmsgerr` and its attributes (`netlink_ack`,
/// net/netlink/af_netlink.c).
fn error(seq: u32, flags: u16, payload: &[u8]) -> Option<Answer> {
    let errno = wire::i32_at(payload, 0)?.wrapping_neg();
    let original = wire::u32_at(payload, 4).unwrap_or(16) as usize;
    let skip = if flags & NLM_F_CAPPED != 0 {
        16
    } else {
        original.next_multiple_of(4)
    };
    let text = Attrs::after(payload, skip.saturating_add(4)).text(nlmsgerr_attr::MSG);
    Some(Answer { seq, errno, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_with_words_is_read() {
        let mut payload = (-22_i32).to_ne_bytes().to_vec();
        payload.extend([36, 0, 0, 0, 36, 0, 5, 6, 1, 0, 0, 0, 0, 0, 0, 0]);
        payload.extend([8, 0, 1, 0, b'n', b'o', b'!', 0]);
        let answer = error(1, NLM_F_CAPPED | 0x200, &payload).unwrap();
        assert_eq!(answer.errno, 22);
        assert_eq!(answer.text.as_deref(), Some("no!"));
    }

    #[test]
    fn any_bytes_are_harmless() {
        for length in 0..40 {
            for fill in [0_u8, 0x7f, 0xff] {
                let payload = vec![fill; length];
                let _ = error(1, 0, &payload);
                let _ = error(1, NLM_F_CAPPED, &payload);
            }
        }
    }
}
