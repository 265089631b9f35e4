// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses numbers and ranges, which several conditions use.

/// What is wrong with an element, and how to correct it.
pub(crate) type Misread = (String, String);

/// Parses `number` or `from-to`, up to 65535.
pub(crate) fn range(text: &str, what: &str, such_as: &str) -> Result<(u16, u16), Misread> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let number = |part: &str| digits(part.trim()).and_then(|number| u16::try_from(number).ok());
    let (Some(from), Some(to)) = (number(from), number(to)) else {
        let hint = format!("write a number up to 65535 or a range, {such_as}");
        return Err((format!("`{text}` is not {what}"), hint));
    };
    if from > to {
        return Err((
            format!("`{text}` runs backwards"),
            format!("write `{to}-{from}`"),
        ));
    }
    Ok((from, to))
}

/// Parses a whole number of digits only; the standard library also accepts `+`.
pub(crate) fn digits(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Parses a 32-bit number, decimal or hexadecimal.
pub(crate) fn number(text: &str) -> Result<u32, Misread> {
    let text = text.trim();
    let plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let found = match text.strip_prefix("0x") {
        Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16)
            .ok()
            .filter(|_| plain(hexadecimal)),
        None => digits(text),
    };
    found.ok_or_else(|| {
        (
            format!("`{text}` is not a number of 32 bits"),
            "write it such as `0x10` or `16`".to_owned(),
        )
    })
}
