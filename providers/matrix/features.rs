//! The features of chat completions, each as a request that has it and the same one that has not.

/// One row of the matrix.
pub(super) struct Feature {
    pub name: &'static str,
    /// The members of the client's body beside `model`.
    pub with: &'static str,
    pub without: &'static str,
    /// Texts that what is sent must hold, in this order.
    pub marks: &'static [&'static str],
    /// What a refusal's parameter may begin with.
    pub names: &'static [&'static str],
    /// The formats that it belongs to, where it is one vendor's mark; empty: everybody's.
    pub of: &'static [&'static str],
    /// The formats that do it without being asked, so that nothing more is sent.
    pub always: &'static [&'static str],
    /// The gateway does it itself: it goes to no provider.
    pub ours: bool,
}

const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;

const PLAIN: Feature =
    Feature { name: "", with: "", without: HI, marks: &[], names: &[], of: &[], always: &[], ours: false };

/// A parameter beside a plain message.
macro_rules! parameter {
    ($name:literal, $value:literal, $($mark:literal),*) => {
        Feature {
            name: $name,
            with: concat!(r#""messages":[{"role":"user","content":"hi"}],"#, "\"", $name, "\":", $value),
            marks: &[$($mark),*],
            names: &[$name],
            ..PLAIN
        }
    };
}

/// Messages instead of the plain one.
macro_rules! messages {
    ($name:literal, $messages:literal, [$($mark:literal),*], [$($refused:literal),*]) => {
        Feature {
            name: $name,
            with: concat!(r#""messages":["#, $messages, "]"),
            marks: &[$($mark),*],
            names: &[$($refused),*],
            ..PLAIN
        }
    };
}

/// Members beside a message and a tool, against the same without them.
macro_rules! with_tool {
    ($name:literal, $members:literal, [$($mark:literal),*], [$($refused:literal),*]) => {
        Feature {
            name: $name,
            with: concat!(r#""messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"#, $members),
            without: r#""messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]"#,
            marks: &[$($mark),*],
            names: &[$($refused),*],
            ..PLAIN
        }
    };
}

/// One tool, against the plainest one.
macro_rules! tool {
    ($name:literal, $tool:literal, [$($mark:literal),*], [$($refused:literal),*]) => {
        Feature {
            name: $name,
            with: concat!(r#""messages":[{"role":"user","content":"hi"}],"tools":["#, $tool, "]"),
            without: r#""messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]"#,
            marks: &[$($mark),*],
            names: &[$($refused),*],
            ..PLAIN
        }
    };
}

/// An answer's schema, against the plainest one.
macro_rules! schema {
    ($name:literal, $members:literal, [$($mark:literal),*], [$($refused:literal),*]) => {
        Feature {
            name: $name,
            with: concat!(
                r#""messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"s","#,
                $members, "}}"
            ),
            without: r#""messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}}"#,
            marks: &[$($mark),*],
            names: &[$($refused),*],
            ..PLAIN
        }
    };
}

pub(super) const FEATURES: &[Feature] = &[
    messages!("system", r#"{"role":"system","content":"S-ONE"},{"role":"user","content":"hi"}"#, ["S-ONE"], []),
    messages!(
        "several system messages",
        r#"{"role":"system","content":"S-ONE"},{"role":"system","content":"S-TWO"},{"role":"user","content":"hi"}"#,
        ["S-ONE", "S-TWO"],
        []
    ),
    messages!("developer", r#"{"role":"developer","content":"D-ONE"},{"role":"user","content":"hi"}"#, ["D-ONE"], []),
    messages!(
        "a later system message in its place",
        r#"{"role":"user","content":"Q-ONE"},{"role":"assistant","content":"A-ONE"},{"role":"system","content":"S-LATE"},{"role":"user","content":"Q-TWO"}"#,
        ["Q-ONE", "A-ONE", "S-LATE", "Q-TWO"],
        []
    ),
    messages!(
        "turns in their order",
        r#"{"role":"user","content":"Q-ONE"},{"role":"assistant","content":"A-ONE"},{"role":"user","content":"Q-TWO"}"#,
        ["Q-ONE", "A-ONE", "Q-TWO"],
        []
    ),
    messages!(
        "two user messages in a row",
        r#"{"role":"user","content":"Q-ONE"},{"role":"user","content":"Q-TWO"}"#,
        ["Q-ONE", "Q-TWO"],
        []
    ),
    messages!(
        "content as parts",
        r#"{"role":"user","content":[{"type":"text","text":"P-ONE"},{"type":"text","text":"P-TWO"}]}"#,
        ["P-ONE", "P-TWO"],
        []
    ),
    messages!(
        "system as parts",
        r#"{"role":"system","content":[{"type":"text","text":"P-ONE"},{"type":"text","text":"P-TWO"}]},{"role":"user","content":"hi"}"#,
        ["P-ONE", "P-TWO"],
        []
    ),
    messages!(
        "image as data, between texts",
        r#"{"role":"user","content":[{"type":"text","text":"P-ONE"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aW1hZ2U="}},{"type":"text","text":"P-TWO"}]}"#,
        ["P-ONE", "aW1hZ2U=", "P-TWO"],
        ["messages[0].content[1]"]
    ),
    messages!(
        "image by address",
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example/y.png"}}]}"#,
        ["https://x.example/y.png"],
        ["messages[0].content[0]"]
    ),
    messages!(
        "image detail",
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aW1hZ2U=","detail":"low"}}]}"#,
        ["low"],
        ["messages[0].content[0].image_url.detail"]
    ),
    messages!(
        "audio",
        r#"{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"c291bmQ=","format":"wav"}}]}"#,
        ["c291bmQ="],
        ["messages[0].content[0]"]
    ),
    messages!(
        "file",
        r#"{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,cGRm"}}]}"#,
        ["cGRm"],
        ["messages[0].content[0]"]
    ),
    messages!(
        "a participant's name",
        r#"{"role":"user","name":"N-ONE","content":"hi"}"#,
        ["N-ONE"],
        ["messages[0].name"]
    ),
    messages!(
        "cache control on a part",
        r#"{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}"#,
        ["ephemeral"],
        ["messages[0].content[0].cache_control"]
    ),
    messages!(
        "an unknown member of a message",
        r#"{"role":"user","content":"hi","x_unknown":"X-ONE"}"#,
        ["X-ONE"],
        ["messages[0].x_unknown"]
    ),
    messages!(
        "a refusal in the history",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":null,"refusal":"R-NO"},{"role":"user","content":"why"}"#,
        ["R-NO"],
        ["messages[1].refusal"]
    ),
    messages!(
        "calls and their results, in the calls' order",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":"T-ONE","tool_calls":[{"id":"call_1","type":"function","function":{"name":"F_A","arguments":"{\"n\":7300000000000000001}"}},{"id":"call_2","type":"function","function":{"name":"F_B","arguments":"{\"x\":1.50}"}}]},{"role":"tool","tool_call_id":"call_1","content":"R-ONE"},{"role":"tool","tool_call_id":"call_2","content":"R-TWO"}"#,
        ["T-ONE", "F_A", "7300000000000000001", "F_B", "1.50", "R-ONE", "R-TWO"],
        []
    ),
    messages!(
        "the same tool twice",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"F_A","arguments":"{\"a\":1}"}},{"id":"call_2","type":"function","function":{"name":"F_A","arguments":"{\"a\":2}"}}]},{"role":"tool","tool_call_id":"call_1","content":"R-ONE"},{"role":"tool","tool_call_id":"call_2","content":"R-TWO"}"#,
        ["F_A", "F_A", "R-ONE", "R-TWO"],
        []
    ),
    messages!(
        "a call with empty arguments",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"F_A","arguments":""}}]},{"role":"tool","tool_call_id":"call_1","content":"R-ONE"}"#,
        ["F_A", "{}", "R-ONE"],
        []
    ),
    messages!(
        "a result as parts",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"F_A","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"R-ONE"},{"type":"text","text":"R-TWO"}]}"#,
        ["R-ONE", "R-TWO"],
        []
    ),
    Feature {
        name: "Anthropic's signed reasoning",
        with: r#""messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a","thinking_blocks":[{"type":"thinking","thinking":"T-ONE","signature":"c2ln"}]},{"role":"user","content":"go"}]"#,
        marks: &["T-ONE", "c2ln"],
        of: &["anthropic", "bedrock"],
        ..PLAIN
    },
    Feature {
        name: "Google's signatures",
        with: r#""messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a","extra_content":{"google":{"thought_signature":"c2ln"}}},{"role":"user","content":"go"}]"#,
        marks: &["c2ln"],
        of: &["gemini", "vertex"],
        ..PLAIN
    },
    Feature {
        name: "OpenAI's reasoning items",
        with: r#""messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a","reasoning_items":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2ln"}]},{"role":"user","content":"go"}]"#,
        marks: &["c2ln"],
        of: &["openai-responses"],
        ..PLAIN
    },
    tool!(
        "tools",
        r#"{"type":"function","function":{"name":"F_A","description":"D-ONE","parameters":{"type":"object","properties":{"P_A":{"type":"integer","maximum":7300000000000000001}}}}}"#,
        ["F_A", "D-ONE", "P_A", "7300000000000000001"],
        []
    ),
    tool!("a tool without parameters", r#"{"type":"function","function":{"name":"F_A"}}"#, ["F_A"], []),
    tool!(
        "a strict tool",
        r#"{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}}"#,
        [],
        ["tools[0].function.strict"]
    ),
    tool!(
        "an unknown member of a tool",
        r#"{"type":"function","function":{"name":"f","parameters":{"type":"object"}},"x_unknown":"X-ONE"}"#,
        ["X-ONE"],
        ["tools[0].x_unknown"]
    ),
    tool!(
        "an unknown member of a function",
        r#"{"type":"function","function":{"name":"f","parameters":{"type":"object"},"x_unknown":"X-ONE"}}"#,
        ["X-ONE"],
        ["tools[0].function.x_unknown"]
    ),
    tool!("a tool that is no function", r#"{"type":"custom","custom":{"name":"C_A"}}"#, ["C_A"], ["tools[0]"]),
    with_tool!("tool_choice: none", r#""tool_choice":"none""#, [], ["tool_choice"]),
    with_tool!("tool_choice: required", r#""tool_choice":"required""#, [], ["tool_choice"]),
    with_tool!(
        "tool_choice: one function",
        r#""tool_choice":{"type":"function","function":{"name":"f"}}"#,
        [],
        ["tool_choice"]
    ),
    with_tool!("parallel_tool_calls: false", r#""parallel_tool_calls":false"#, [], ["parallel_tool_calls"]),
    parameter!("response_format", r#"{"type":"json_object"}"#,),
    schema!(
        "a schema for the answer",
        r#""schema":{"type":"object","properties":{"P_A":{"type":"integer","maximum":7300000000000000001}}}"#,
        ["P_A", "7300000000000000001"],
        ["response_format"]
    ),
    Feature {
        always: &["anthropic", "gemini", "vertex", "bedrock", "cohere", "ollama"],
        ..schema!("a strict schema", r#""schema":{"type":"object"},"strict":true"#, [], ["response_format"])
    },
    schema!(
        "a schema's description",
        r#""schema":{"type":"object"},"description":"D-ONE""#,
        ["D-ONE"],
        ["response_format.json_schema.description"]
    ),
    schema!(
        "an unknown member of a schema",
        r#""schema":{"type":"object"},"x_unknown":"X-ONE""#,
        ["X-ONE"],
        ["response_format.json_schema.x_unknown"]
    ),
    parameter!("stop", r#""STOP-ONE""#, "STOP-ONE"),
    Feature {
        name: "several stops",
        with: r#""messages":[{"role":"user","content":"hi"}],"stop":["STOP-ONE","STOP-TWO"]"#,
        marks: &["STOP-ONE", "STOP-TWO"],
        names: &["stop"],
        ..PLAIN
    },
    parameter!("max_tokens", "7301", "7301"),
    parameter!("max_completion_tokens", "7301", "7301"),
    parameter!("temperature", "0.10", "0.10"),
    parameter!("top_p", "9e-1", "9e-1"),
    parameter!("n", "2", "2"),
    parameter!("seed", "7300000000000000001", "7300000000000000001"),
    parameter!("logprobs", "true",),
    Feature {
        name: "top_logprobs",
        with: r#""messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":3"#,
        marks: &["3"],
        names: &["logprobs", "top_logprobs"],
        ..PLAIN
    },
    parameter!("logit_bias", r#"{"7301":5}"#, "7301"),
    parameter!("presence_penalty", "0.250", "0.250"),
    parameter!("frequency_penalty", "0.250", "0.250"),
    parameter!("user", r#""U-ONE""#, "U-ONE"),
    parameter!("safety_identifier", r#""U-ONE""#, "U-ONE"),
    parameter!("metadata", r#"{"k":"M-ONE"}"#, "M-ONE"),
    parameter!("store", "true",),
    parameter!("service_tier", r#""flex""#,),
    parameter!("reasoning_effort", r#""high""#,),
    Feature {
        name: "no reasoning",
        with: r#""messages":[{"role":"user","content":"hi"}],"reasoning_effort":"none""#,
        names: &["reasoning_effort"],
        ..PLAIN
    },
    parameter!("verbosity", r#""low""#,),
    parameter!("modalities", r#"["text","audio"]"#,),
    parameter!("prediction", r#"{"type":"content","content":"P-ONE"}"#, "P-ONE"),
    parameter!("prompt_cache_key", r#""K-ONE""#, "K-ONE"),
    parameter!("web_search_options", r#"{"search_context_size":"low"}"#,),
    parameter!("x_unknown", r#"{"b":1.50,"a":"X-ONE"}"#, "1.50", "X-ONE"),
    parameter!("stream", "true",),
    Feature {
        name: "stream_options beyond usage",
        with: r#""messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_obfuscation":true}"#,
        without: r#""messages":[{"role":"user","content":"hi"}],"stream":true"#,
        marks: &["include_obfuscation"],
        names: &["stream_options"],
        ..PLAIN
    },
];
