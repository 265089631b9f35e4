// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What values return of themselves: in which unit, and under which name.

use std::time::Duration;
use weirgate_units::{Direction, PeerText, Rate, Share, Span};

#[test]
fn directions_have_places_and_names() {
    let all = [Direction::Up, Direction::Down];
    assert_eq!(all.map(Direction::index), [0, 1]);
    assert_eq!(all.map(Direction::name), ["up", "down"]);
    assert_eq!(all.map(Direction::stream), ["upstream", "downstream"]);
    assert_eq!(all.map(|one| one.to_string()), ["up", "down"]);
    assert_eq!(
        all.map(Direction::reversed),
        [Direction::Down, Direction::Up]
    );
}

#[test]
fn rates_shares_and_spans_have_units() {
    let rate = Rate::bits_per_second(2_500_007);
    assert_eq!(rate.as_bytes_per_second(), 312_500);
    assert!((rate.as_kbit() - 2_500.007).abs() < 1e-9);
    let share = Share::millionths(25_000);
    assert_eq!(share.as_millionths(), 25_000);
    assert!((share.as_f64() - 0.025).abs() < 1e-12);
    let span = Span::from_millis(2_500);
    assert!((span.as_secs_f64() - 2.5).abs() < 1e-12);
    assert_eq!(Duration::from(span), Duration::from_millis(2_500));
    assert_eq!(span - Span::from_millis(2_000), Span::from_millis(500));
    assert_eq!(Span::from_millis(1) - span, Span::ZERO);
}

#[test]
fn a_number_has_at_most_nine_digits_after_the_point() {
    assert_eq!("0.123456789s".parse(), Ok(Span::from_nanos(123_456_789)));
    assert!("0.1234567890s".parse::<Span>().is_err());
}

#[test]
fn text_of_a_peer_is_looked_at_without_being_shown() {
    let text = PeerText::new("busy\n\x07later");
    let lines: Vec<PeerText> = text.lines().collect();
    assert_eq!(lines, [PeerText::new("busy"), PeerText::new("\x07later")]);
    assert!(text.contains("y\n\x07l") && !text.contains("quiet"));
    assert!(!text.is_blank() && PeerText::new(" \n\t").is_blank());
}
