// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page's files, which are part of the program.

/// A path, its type and its content.
pub(crate) static FILES: [(&str, &str, &str); 5] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("../../../web/index.html"),
    ),
    (
        "/watch.js",
        "text/javascript; charset=utf-8",
        include_str!("../../../web/watch.js"),
    ),
    (
        "/figures.js",
        "text/javascript; charset=utf-8",
        include_str!("../../../web/figures.js"),
    ),
    (
        "/series.js",
        "text/javascript; charset=utf-8",
        include_str!("../../../web/series.js"),
    ),
    (
        "/watch.css",
        "text/css; charset=utf-8",
        include_str!("../../../web/watch.css"),
    ),
];
