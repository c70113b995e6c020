//! The features of OpenAI responses, in that dialect's own words.

use super::features::Feature;

const HI: &str = r#""input":"hi""#;

const PLAIN: Feature =
    Feature { name: "", with: "", without: HI, marks: &[], names: &[], of: &[], always: &[], ours: false };

/// What is of OpenAI responses alone, and means nothing to others.
const THEIRS: &[&str] = &["openai-responses"];

/// Members beside a plain input.
macro_rules! members {
    ($name:literal, $members:literal, [$($mark:literal),*], [$($refused:literal),*]) => {
        Feature {
            name: $name,
            with: concat!(r#""input":"hi","#, $members),
            marks: &[$($mark),*],
            names: &[$($refused),*],
            ..PLAIN
        }
    };
}

/// Items instead of the plain input.
macro_rules! items {
    ($name:literal, $items:literal, [$($mark:literal),*], [$($refused:literal),*]) => {
        Feature {
            name: $name,
            with: concat!(r#""input":["#, $items, "]"),
            marks: &[$($mark),*],
            names: &[$($refused),*],
            ..PLAIN
        }
    };
}

/// Members beside an input and a tool, against the same without them.
macro_rules! with_tool {
    ($name:literal, $members:literal, [$($mark:literal),*], [$($refused:literal),*]) => {
        Feature {
            name: $name,
            with: concat!(r#""input":"hi","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"#, $members),
            without: r#""input":"hi","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]"#,
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
            with: concat!(r#""input":"hi","tools":["#, $tool, "]"),
            without: r#""input":"hi","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]"#,
            marks: &[$($mark),*],
            names: &[$($refused),*],
            ..PLAIN
        }
    };
}

pub(super) const FEATURES: &[Feature] = &[
    members!("instructions", r#""instructions":"S-ONE""#, ["S-ONE"], []),
    Feature { name: "input as text", with: r#""input":"I-ONE""#, marks: &["I-ONE"], ..PLAIN },
    items!(
        "system and developer",
        r#"{"role":"system","content":"S-ONE"},{"role":"developer","content":"D-ONE"},{"role":"user","content":"hi"}"#,
        ["S-ONE", "D-ONE"],
        []
    ),
    items!(
        "a later system message in its place",
        r#"{"role":"user","content":"Q-ONE"},{"role":"assistant","content":"A-ONE"},{"role":"system","content":"S-LATE"},{"role":"user","content":"Q-TWO"}"#,
        ["Q-ONE", "A-ONE", "S-LATE", "Q-TWO"],
        []
    ),
    items!(
        "turns in their order",
        r#"{"type":"message","role":"user","content":"Q-ONE"},{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"A-ONE","annotations":[]}]},{"role":"user","content":"Q-TWO"}"#,
        ["Q-ONE", "A-ONE", "Q-TWO"],
        []
    ),
    items!(
        "two user messages in a row",
        r#"{"role":"user","content":"Q-ONE"},{"role":"user","content":"Q-TWO"}"#,
        ["Q-ONE", "Q-TWO"],
        []
    ),
    items!(
        "content as parts",
        r#"{"role":"user","content":[{"type":"input_text","text":"P-ONE"},{"type":"input_text","text":"P-TWO"}]}"#,
        ["P-ONE", "P-TWO"],
        []
    ),
    items!(
        "image as data, between texts",
        r#"{"role":"user","content":[{"type":"input_text","text":"P-ONE"},{"type":"input_image","image_url":"data:image/png;base64,aW1hZ2U="},{"type":"input_text","text":"P-TWO"}]}"#,
        ["P-ONE", "aW1hZ2U=", "P-TWO"],
        ["input[0].content[1]"]
    ),
    items!(
        "image by address",
        r#"{"role":"user","content":[{"type":"input_image","image_url":"https://x.example/y.png"}]}"#,
        ["https://x.example/y.png"],
        ["input[0].content[0]"]
    ),
    items!(
        "image detail",
        r#"{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,aW1hZ2U=","detail":"low"}]}"#,
        ["low"],
        ["input[0].content[0]"]
    ),
    items!(
        "image by file",
        r#"{"role":"user","content":[{"type":"input_image","file_id":"file_731"}]}"#,
        ["file_731"],
        ["input[0].content[0].file_id"]
    ),
    items!(
        "file as data",
        r#"{"role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,cGRm"}]}"#,
        ["a.pdf", "cGRm"],
        ["input[0].content[0]"]
    ),
    items!(
        "file by address",
        r#"{"role":"user","content":[{"type":"input_file","file_url":"https://x.example/a.pdf"}]}"#,
        ["https://x.example/a.pdf"],
        ["input[0].content[0].file_url"]
    ),
    items!(
        "an unknown member of an item",
        r#"{"role":"user","content":"hi","x_unknown":"X-ONE"}"#,
        ["X-ONE"],
        ["input[0].x_unknown"]
    ),
    items!(
        "an unknown member of a part",
        r#"{"role":"user","content":[{"type":"input_text","text":"hi","x_unknown":"X-ONE"}]}"#,
        ["X-ONE"],
        ["input[0].content[0].x_unknown"]
    ),
    items!(
        "an unknown kind of item",
        r#"{"role":"user","content":"hi"},{"type":"x_unknown","a":"X-ONE"}"#,
        ["X-ONE"],
        ["input[1]"]
    ),
    items!(
        "a reference to an item",
        r#"{"role":"user","content":"hi"},{"type":"item_reference","id":"X-ONE"}"#,
        ["X-ONE"],
        ["input[1]"]
    ),
    items!(
        "the phase of a message",
        r#"{"role":"assistant","content":"a","phase":"commentary"},{"role":"user","content":"hi"}"#,
        ["commentary"],
        ["input[0].phase"]
    ),
    items!(
        "a refusal in the history",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"refusal","refusal":"R-NO"}]},{"role":"user","content":"why"}"#,
        ["R-NO"],
        ["input[1].content[0]", "input[1].refusal"]
    ),
    items!(
        "calls and their results, in the calls' order",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":"T-ONE"},{"type":"function_call","call_id":"call_1","name":"F_A","arguments":"{\"n\":7300000000000000001}"},{"type":"function_call","call_id":"call_2","name":"F_B","arguments":"{\"x\":1.50}"},{"type":"function_call_output","call_id":"call_1","output":"R-ONE"},{"type":"function_call_output","call_id":"call_2","output":"R-TWO"}"#,
        ["T-ONE", "F_A", "7300000000000000001", "F_B", "1.50", "R-ONE", "R-TWO"],
        []
    ),
    items!(
        "the same tool twice",
        r#"{"role":"user","content":"hi"},{"type":"function_call","call_id":"call_1","name":"F_A","arguments":"{\"a\":1}"},{"type":"function_call","call_id":"call_2","name":"F_A","arguments":"{\"a\":2}"},{"type":"function_call_output","call_id":"call_1","output":"R-ONE"},{"type":"function_call_output","call_id":"call_2","output":"R-TWO"}"#,
        ["F_A", "F_A", "R-ONE", "R-TWO"],
        []
    ),
    items!(
        "a call with empty arguments",
        r#"{"role":"user","content":"hi"},{"type":"function_call","call_id":"call_1","name":"F_A","arguments":"{}"},{"type":"function_call_output","call_id":"call_1","output":"R-ONE"}"#,
        ["F_A", "{}", "R-ONE"],
        []
    ),
    items!(
        "a result as parts",
        r#"{"role":"user","content":"hi"},{"type":"function_call","call_id":"call_1","name":"F_A","arguments":"{}"},{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_text","text":"R-ONE"},{"type":"input_text","text":"R-TWO"}]}"#,
        ["R-ONE", "R-TWO"],
        []
    ),
    items!(
        "a result with an image",
        r#"{"role":"user","content":"hi"},{"type":"function_call","call_id":"call_1","name":"F_A","arguments":"{}"},{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_image","image_url":"data:image/png;base64,aW1hZ2U="}]}"#,
        ["aW1hZ2U="],
        ["input[2].output[0]", "input[2].content[0]"]
    ),
    items!(
        "text behind a call",
        r#"{"role":"user","content":"hi"},{"type":"function_call","call_id":"call_1","name":"F_A","arguments":"{}"},{"role":"assistant","content":"T-LATE"},{"type":"function_call_output","call_id":"call_1","output":"R-ONE"}"#,
        ["F_A", "T-LATE", "R-ONE"],
        ["input[2]"]
    ),
    items!(
        "a free-form call",
        r#"{"role":"user","content":"hi"},{"type":"custom_tool_call","call_id":"call_1","name":"F_A","input":"X-ONE"},{"type":"custom_tool_call_output","call_id":"call_1","output":"R-ONE"}"#,
        ["X-ONE", "R-ONE"],
        ["input[1]"]
    ),
    Feature {
        of: THEIRS,
        ..items!(
            "reasoning items",
            r#"{"role":"user","content":"hi"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2ln"},{"role":"assistant","content":"a"},{"role":"user","content":"go"}"#,
            ["c2ln"],
            []
        )
    },
    Feature {
        of: &["gemini", "vertex"],
        ..items!(
            "Google's signature, sealed",
            r#"{"role":"user","content":"hi"},{"role":"assistant","content":"a"},{"type":"reasoning","id":"rs_0193a1b2c3d4e5f60718293a4b5c6d7e0001","summary":[],"encrypted_content":"interlock:{\"member\":\"extra_content\",\"value\":{\"google\":{\"thought_signature\":\"c2ln\"}}}"},{"role":"user","content":"go"}"#,
            ["c2ln"],
            []
        )
    },
    Feature {
        of: &["gemini", "vertex"],
        ..items!(
            "Google's signature of a call, sealed",
            r#"{"role":"user","content":"hi"},{"role":"assistant","content":"a"},{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"},{"type":"reasoning","id":"rs_0193a1b2c3d4e5f60718293a4b5c6d7e0001","summary":[],"encrypted_content":"interlock:{\"member\":\"extra_content\",\"call\":\"call_1\",\"value\":{\"google\":{\"thought_signature\":\"c2ln\"}}}"},{"type":"function_call_output","call_id":"call_1","output":"r"}"#,
            ["functionCall", "c2ln"],
            []
        )
    },
    Feature {
        of: &["anthropic", "bedrock"],
        ..items!(
            "Anthropic's signed reasoning, sealed",
            r#"{"role":"user","content":"hi"},{"role":"assistant","content":"a"},{"type":"reasoning","id":"rs_0193a1b2c3d4e5f60718293a4b5c6d7e0001","summary":[],"encrypted_content":"interlock:{\"member\":\"thinking_blocks\",\"value\":[{\"type\":\"thinking\",\"thinking\":\"T-ONE\",\"signature\":\"c2ln\"}]}"},{"role":"user","content":"go"}"#,
            ["T-ONE", "c2ln"],
            []
        )
    },
    Feature {
        of: THEIRS,
        ..items!(
            "annotations in the history",
            r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"output_text","text":"a","annotations":[{"type":"url_citation","url":"https://c.example/one","title":"t","start_index":0,"end_index":1}]}]},{"role":"user","content":"go"}"#,
            ["https://c.example/one"],
            []
        )
    },
    tool!(
        "tools",
        r#"{"type":"function","name":"F_A","description":"D-ONE","parameters":{"type":"object","properties":{"P_A":{"type":"integer","maximum":7300000000000000001}}}}"#,
        ["F_A", "D-ONE", "P_A", "7300000000000000001"],
        []
    ),
    tool!("a tool without parameters", r#"{"type":"function","name":"F_A"}"#, ["F_A"], []),
    tool!(
        "a strict tool",
        r#"{"type":"function","name":"f","parameters":{"type":"object"},"strict":true}"#,
        [],
        ["tools[0].strict"]
    ),
    tool!(
        "an unknown member of a tool",
        r#"{"type":"function","name":"f","parameters":{"type":"object"},"x_unknown":"X-ONE"}"#,
        ["X-ONE"],
        ["tools[0].x_unknown"]
    ),
    tool!("a free-form tool", r#"{"type":"custom","name":"C_A"}"#, ["C_A"], ["tools[0]"]),
    tool!(
        "a tool that runs at the provider",
        r#"{"type":"web_search","search_context_size":"low"}"#,
        ["web_search"],
        ["tools[0]"]
    ),
    with_tool!("tool_choice: none", r#""tool_choice":"none""#, [], ["tool_choice"]),
    with_tool!("tool_choice: required", r#""tool_choice":"required""#, [], ["tool_choice"]),
    with_tool!("tool_choice: one function", r#""tool_choice":{"type":"function","name":"f"}"#, [], ["tool_choice"]),
    with_tool!(
        "tool_choice: some tools",
        r#""tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}"#,
        ["allowed_tools"],
        ["tool_choice"]
    ),
    with_tool!("parallel_tool_calls: false", r#""parallel_tool_calls":false"#, [], ["parallel_tool_calls"]),
    members!("max_tool_calls", r#""max_tool_calls":731"#, ["731"], ["max_tool_calls"]),
    members!("an answer in JSON", r#""text":{"format":{"type":"json_object"}}"#, [], ["text.format"]),
    members!(
        "a schema for the answer",
        r#""text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object","properties":{"P_A":{"type":"integer","maximum":7300000000000000001}}}}}"#,
        ["P_A", "7300000000000000001"],
        ["text.format"]
    ),
    Feature {
        always: &["anthropic", "gemini", "vertex", "bedrock", "cohere", "ollama"],
        without: r#""input":"hi","text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object"}}}"#,
        ..members!(
            "a strict schema",
            r#""text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object"},"strict":true}}"#,
            [],
            ["text.format"]
        )
    },
    members!(
        "a schema's description",
        r#""text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object"},"description":"D-ONE"}}"#,
        ["D-ONE"],
        ["text.format"]
    ),
    members!(
        "an unknown member of a schema",
        r#""text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object"},"x_unknown":"X-ONE"}}"#,
        ["X-ONE"],
        ["text.format"]
    ),
    members!("a format by name alone", r#""text":{"format":"json_object"}"#, ["json_object"], ["text.format"]),
    members!("verbosity", r#""text":{"verbosity":"low"}"#, ["low"], ["text.verbosity"]),
    members!("max_output_tokens", r#""max_output_tokens":7301"#, ["7301"], ["max_output_tokens"]),
    members!("temperature", r#""temperature":0.10"#, ["0.10"], ["temperature"]),
    members!("top_p", r#""top_p":9e-1"#, ["9e-1"], ["top_p"]),
    members!("logprobs", r#""include":["message.output_text.logprobs"]"#, [], ["include"]),
    members!(
        "top_logprobs",
        r#""include":["message.output_text.logprobs"],"top_logprobs":3"#,
        ["3"],
        ["include", "top_logprobs"]
    ),
    members!(
        "signed reasoning asked for",
        r#""include":["reasoning.encrypted_content"]"#,
        ["encrypted_content"],
        ["include[0]"]
    ),
    members!("reasoning effort", r#""reasoning":{"effort":"high"}"#, [], ["reasoning.effort"]),
    members!("no reasoning", r#""reasoning":{"effort":"none"}"#, [], ["reasoning.effort"]),
    members!("reasoning summary", r#""reasoning":{"summary":"detailed"}"#, ["detailed"], ["reasoning.summary"]),
    members!("user", r#""user":"U-ONE""#, ["U-ONE"], ["user"]),
    members!("safety_identifier", r#""safety_identifier":"U-ONE""#, ["U-ONE"], ["safety_identifier"]),
    members!("prompt_cache_key", r#""prompt_cache_key":"K-ONE""#, ["K-ONE"], ["prompt_cache_key"]),
    members!("prompt_cache_retention", r#""prompt_cache_retention":"24h""#, ["24h"], ["prompt_cache_retention"]),
    members!("service_tier", r#""service_tier":"flex""#, [], ["service_tier"]),
    members!("truncation", r#""truncation":"auto""#, ["truncation"], ["truncation"]),
    members!("prompt", r#""prompt":{"id":"P-ONE"}"#, ["P-ONE"], ["prompt"]),
    members!("conversation", r#""conversation":"C-ONE""#, ["C-ONE"], ["conversation"]),
    members!(
        "context_management",
        r#""context_management":[{"type":"compaction","compact_threshold":7301}]"#,
        ["7301"],
        ["context_management"]
    ),
    Feature { of: THEIRS, ..members!("metadata", r#""metadata":{"k":"M-ONE"}"#, ["M-ONE"], []) },
    // Those who keep nothing do as it says.
    Feature {
        always: &["anthropic", "gemini", "vertex", "bedrock", "cohere", "ollama"],
        ..members!("store: false", r#""store":false"#, [], ["store"])
    },
    Feature { ours: true, ..members!("previous_response_id", r#""previous_response_id":"resp_731""#, [], []) },
    Feature { ours: true, ..members!("background", r#""background":true"#, [], []) },
    members!("x_unknown", r#""x_unknown":{"b":1.50,"a":"X-ONE"}"#, ["1.50", "X-ONE"], ["x_unknown"]),
    members!("stream", r#""stream":true"#, [], ["stream"]),
    Feature {
        without: r#""input":"hi","stream":true"#,
        ..members!(
            "stream_options",
            r#""stream":true,"stream_options":{"include_obfuscation":true}"#,
            ["include_obfuscation"],
            ["stream_options"]
        )
    },
];
