//! The features of embeddings, which only those have who speak OpenAI's protocol: everybody else is no such provider.

use super::features::Feature;

const PLAIN: Feature = Feature {
    name: "",
    with: "",
    without: r#""input":"hi""#,
    marks: &[],
    names: &["model"],
    of: &[],
    always: &[],
    ours: false,
};

macro_rules! members {
    ($name:literal, $members:literal, [$($mark:literal),*]) => {
        Feature { name: $name, with: $members, marks: &[$($mark),*], ..PLAIN }
    };
}

pub(super) const FEATURES: &[Feature] = &[
    members!("one text", r#""input":"I-ONE""#, ["I-ONE"]),
    members!("several texts in their order", r#""input":["I-ONE","I-TWO"]"#, ["I-ONE", "I-TWO"]),
    members!("tokens", r#""input":[[7301,7302]]"#, ["7301", "7302"]),
    members!("dimensions", r#""input":"hi","dimensions":7301"#, ["7301"]),
    members!("encoding_format", r#""input":"hi","encoding_format":"base64""#, ["base64"]),
    members!("user", r#""input":"hi","user":"U-ONE""#, ["U-ONE"]),
    members!(
        "x_unknown",
        r#""input":"hi","x_unknown":{"b":1.50,"a":7300000000000000001}"#,
        ["1.50", "7300000000000000001"]
    ),
    Feature { names: &["model", "stream"], ..members!("stream", r#""input":"hi","stream":true"#, []) },
];
