// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages come out as they went in, and nothing that comes in does harm.

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
            any::<(u32, u32)>(),
            prop_oneof![Just(0.0), 1.0..1e12],
            prop_oneof![Just(f64::INFINITY), 0.0..1e12],
            any::<(u64, u64)>()
        )
            .prop_map(
                |((id, received), gap_ns, gap_error_ns, (delay_ns, standing_ns))| Message::Told {
                    id,
                    seen: Seen {
                        received,
                        gap_ns,
                        gap_error_ns,
                        delay_ns,
                        standing_ns
                    },
                }
            ),
        any::<u32>().prop_map(|id| Message::Refused { id }),
    ]
}

proptest! {
    #[test]
    fn a_message_is_read_as_it_was_written(message in message(), padding in 0_usize..40) {
        let mut bytes = message.bytes();
        bytes.resize(bytes.len() + padding, 0);
        prop_assert_eq!(Message::read(&bytes), Some(message));
    }

    #[test]
    fn a_part_of_a_message_is_none(message in message(), part in 0.0..1.0) {
        let bytes = message.bytes();
        let length = (bytes.len() as f64 * part) as usize;
        prop_assert_eq!(Message::read(&bytes[..length]), None);
    }

    #[test]
    fn any_bytes_are_read_without_harm(kind: u8, rest: Vec<u8>) {
        let _ = Message::read(&rest);
        let known = [b"WGP1".as_slice(), &[kind], &rest].concat();
        if let Some(Message::Send { train, .. }) = Message::read(&known) {
            let _ = train.bearable();
        }
    }

    /// What is taken part in has an end, in bytes and in time.
    #[test]
    fn a_bearable_train_has_an_end(train in train()) {
        if train.bearable() {
            prop_assert!(u64::from(train.count) * u64::from(train.payload) <= 64 << 20);
            prop_assert!(u64::from(train.count) * train.gap_ns <= 12_000_000_000);
        }
    }
}

/// A gap that is no time is not read: it would become one.
#[test]
fn a_gap_that_cannot_be_is_refused() {
    let told = |gap_ns, gap_error_ns| {
        let seen = Seen {
            gap_ns,
            gap_error_ns,
            ..Seen::default()
        };
        Message::read(&Message::Told { id: 1, seen }.bytes())
    };
    assert!(told(1_500_000.0, 10.0).is_some());
    assert!(told(0.0, f64::INFINITY).is_some());
    for gap in [f64::INFINITY, f64::NAN, -1.0, 1e-300, 1e300] {
        assert_eq!(told(gap, 1.0), None, "{gap}");
    }
    assert_eq!(told(1_500_000.0, f64::NAN), None);
}

/// Nobody gets more than he sent before he has shown where he is.
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
