// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages survive a round trip, and no input does harm.

use proptest::prelude::*;
use weirgate_probe::{COOKIE, GREETING, Message, SHORTEST, Seen, Train};

fn train() -> impl Strategy<Value = Train> {
    any::<(u32, u16, u32, u64)>().prop_map(|(id, payload, count, gap_ns)| Train {
        id,
        payload,
        count,
        gap_ns,
    })
}

fn message() -> impl Strategy<Value = Message> {
    let cookie = any::<[u8; COOKIE]>();
    prop_oneof![
        any::<u64>().prop_map(|nonce| Message::Hello { nonce }),
        (any::<u64>(), cookie).prop_map(|(nonce, cookie)| Message::Welcome { nonce, cookie }),
        (cookie, train()).prop_map(|(cookie, train)| Message::Send { cookie, train }),
        (cookie, train()).prop_map(|(cookie, train)| Message::Expect { cookie, train }),
        any::<u32>().prop_map(|id| Message::Ready { id }),
        any::<(u32, u32, u64)>().prop_map(|(id, index, sent_ns)| Message::Data {
            id,
            index,
            sent_ns
        }),
        (cookie, any::<u32>()).prop_map(|(cookie, id)| Message::Ask { cookie, id }),
        (
            (any::<u32>(), 0..=65_536_u32),
            prop_oneof![Just(0.0), 1.0..1.2e10],
            prop_oneof![Just(f64::INFINITY), 0.0..1e12],
            (0..=60_000_000_000_u64, any::<prop::sample::Index>())
        )
            .prop_map(|((id, received), gap_ns, gap_error_ns, (delay_ns, part))| {
                Message::Report {
                    id,
                    seen: Seen {
                        received,
                        gap_ns,
                        gap_error_ns,
                        delay_ns,
                        standing_ns: part.index(delay_ns as usize + 1) as u64,
                    },
                }
            }),
        any::<u32>().prop_map(|id| Message::Refused { id }),
    ]
}

proptest! {
    #[test]
    fn a_message_is_read_as_it_was_written(message in message(), padding in 0_usize..40) {
        let mut bytes = message.bytes();
        bytes.resize(bytes.len() + padding, 0);
        prop_assert_eq!(Message::read(&bytes), Ok(Some(message)));
    }

    #[test]
    fn a_part_of_a_message_is_none(message in message(), part in 0.0..1.0) {
        let bytes = message.bytes();
        let length = (bytes.len() as f64 * part) as usize;
        prop_assert_eq!(Message::read(&bytes[..length]), Ok(None));
    }

    #[test]
    fn any_bytes_are_read_without_harm(kind: u8, rest: Vec<u8>) {
        let _ = Message::read(&rest);
        let known = [b"WGP1".as_slice(), &[kind], &rest].concat();
        if let Ok(Some(Message::Send { train, .. })) = Message::read(&known) {
            let _ = train.check();
        }
    }

    /// A measurement is bounded in bytes and in time.
    #[test]
    fn a_checked_train_has_an_end(train in train()) {
        if train.check().is_ok() {
            prop_assert!(u64::from(train.count) * u64::from(train.payload) <= 64 << 20);
            prop_assert!(u64::from(train.count) * train.gap_ns <= 12_000_000_000);
        }
    }
}

/// Impossible values of a train are refused, and the field is named.
#[test]
fn numbers_that_cannot_be_are_refused() {
    let fine = Seen {
        received: 40,
        gap_ns: 1_500_000.0,
        gap_error_ns: 10.0,
        delay_ns: 5_000_000,
        standing_ns: 4_000_000,
    };
    let read = |seen| Message::read(&Message::Report { id: 1, seen }.bytes());
    assert!(read(fine).unwrap().is_some());
    let untold = Seen {
        gap_error_ns: f64::INFINITY,
        ..Seen::default()
    };
    assert!(read(untold).unwrap().is_some());
    let wrong = |seen: Seen, field: &str, bound: &str| {
        let error = read(seen).unwrap_err();
        assert_eq!((error.field, &*error.bound), (field, bound));
    };
    for gap_ns in [f64::INFINITY, f64::NAN, -1.0, 1e-300, 1e300, 1e12] {
        wrong(Seen { gap_ns, ..fine }, "gap_ns", "1 to 12000000000");
    }
    let gap_error_ns = f64::NAN;
    wrong(
        Seen {
            gap_error_ns,
            ..fine
        },
        "gap_error_ns",
        "0 to inf",
    );
    let received = 65_537;
    wrong(Seen { received, ..fine }, "received", "0 to 65536");
    let delay_ns = u64::MAX;
    wrong(Seen { delay_ns, ..fine }, "delay_ns", "0 to 60000000000");
    let standing_ns = 5_000_001;
    wrong(
        Seen {
            standing_ns,
            ..fine
        },
        "standing_ns",
        "0 to 5000000",
    );
}

/// A client gets no more bytes than it sent before it has proven its address.
#[test]
fn a_greeting_is_longer_than_its_answer() {
    let answer = Message::Welcome {
        nonce: 1,
        cookie: [0; COOKIE],
    };
    assert_eq!(Message::Hello { nonce: 1 }.bytes().len(), GREETING);
    assert!(answer.bytes().len() < GREETING);
    let data = Message::Data {
        id: 1,
        index: 2,
        sent_ns: 3,
    };
    assert_eq!(data.bytes().len(), SHORTEST);
}
