//! The features of Anthropic messages, in that dialect's own words.

use super::features::Feature;

const HI: &str = r#""max_tokens":7001,"messages":[{"role":"user","content":"hi"}]"#;

const PLAIN: Feature =
    Feature { name: "", with: "", without: HI, marks: &[], names: &[], of: &[], always: &[], ours: false };

/// Members beside a plain message.
macro_rules! members {
    ($name:literal, $members:literal, [$($mark:literal),*], [$($refused:literal),*]) => {
        Feature {
            name: $name,
            with: concat!(r#""max_tokens":7001,"messages":[{"role":"user","content":"hi"}],"#, $members),
            marks: &[$($mark),*],
            names: &[$($refused),*],
            ..PLAIN
        }
    };
}

/// Messages instead of the plain one.
macro_rules! messages {
    ($name:literal, $messages:literal, [$($mark:literal),*], [$($refused:literal),*]) => {
        Feature {
            name: $name,
            with: concat!(r#""max_tokens":7001,"messages":["#, $messages, "]"),
            marks: &[$($mark),*],
            names: &[$($refused),*],
            ..PLAIN
        }
    };
}

/// Blocks of one user message.
macro_rules! blocks {
    ($name:literal, $blocks:literal, [$($mark:literal),*], [$($refused:literal),*]) => {
        messages!($name, $blocks, [$($mark),*], [$($refused),*])
    };
}

/// Members beside a message and a tool, against the same without them.
macro_rules! with_tool {
    ($name:literal, $members:literal, [$($mark:literal),*], [$($refused:literal),*]) => {
        Feature {
            name: $name,
            with: concat!(r#""max_tokens":7001,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"#, $members),
            without: r#""max_tokens":7001,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]"#,
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
            with: concat!(r#""max_tokens":7001,"messages":[{"role":"user","content":"hi"}],"tools":["#, $tool, "]"),
            without: r#""max_tokens":7001,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]"#,
            marks: &[$($mark),*],
            names: &[$($refused),*],
            ..PLAIN
        }
    };
}

pub(super) const FEATURES: &[Feature] = &[
    members!("system", r#""system":"S-ONE""#, ["S-ONE"], []),
    members!(
        "system as blocks",
        r#""system":[{"type":"text","text":"S-ONE"},{"type":"text","text":"S-TWO"}]"#,
        ["S-ONE", "S-TWO"],
        []
    ),
    members!(
        "cache control on the system",
        r#""system":[{"type":"text","text":"S-ONE","cache_control":{"type":"ephemeral"}}]"#,
        ["ephemeral"],
        ["system[0].cache_control"]
    ),
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
    blocks!(
        "content as blocks",
        r#"{"role":"user","content":[{"type":"text","text":"P-ONE"},{"type":"text","text":"P-TWO"}]}"#,
        ["P-ONE", "P-TWO"],
        []
    ),
    blocks!(
        "image as data, between texts",
        r#"{"role":"user","content":[{"type":"text","text":"P-ONE"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aW1hZ2U="}},{"type":"text","text":"P-TWO"}]}"#,
        ["P-ONE", "aW1hZ2U=", "P-TWO"],
        ["messages[0].content[1]"]
    ),
    blocks!(
        "image by address",
        r#"{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x.example/y.png"}}]}"#,
        ["https://x.example/y.png"],
        ["messages[0].content[0]"]
    ),
    blocks!(
        "image by file",
        r#"{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"file_731"}}]}"#,
        ["file_731"],
        ["messages[0].content[0].source"]
    ),
    blocks!(
        "document",
        r#"{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"cGRm"}}]}"#,
        ["cGRm"],
        ["messages[0].content[0]"]
    ),
    blocks!(
        "document with citations",
        r#"{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"D-ONE"},"citations":{"enabled":true}}]}"#,
        ["D-ONE", "citations"],
        ["messages[0].content[0]"]
    ),
    blocks!(
        "search result",
        r#"{"role":"user","content":[{"type":"search_result","source":"https://x.example","title":"T-ONE","content":[{"type":"text","text":"C-ONE"}]}]}"#,
        ["T-ONE", "C-ONE"],
        ["messages[0].content[0]"]
    ),
    blocks!(
        "cache control on a block",
        r#"{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral","ttl":"1h"}}]}"#,
        ["ephemeral", "1h"],
        ["messages[0].content[0].cache_control"]
    ),
    messages!(
        "an unknown member of a message",
        r#"{"role":"user","content":"hi","x_unknown":"X-ONE"}"#,
        ["X-ONE"],
        ["messages[0].x_unknown"]
    ),
    blocks!(
        "an unknown member of a block",
        r#"{"role":"user","content":[{"type":"text","text":"hi","x_unknown":"X-ONE"}]}"#,
        ["X-ONE"],
        ["messages[0].content[0].x_unknown"]
    ),
    messages!(
        "an answer begun for the model",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":"A-ONE"}"#,
        ["A-ONE"],
        ["messages[1]"]
    ),
    messages!(
        "calls and their results, in the calls' order",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"T-ONE"},{"type":"tool_use","id":"call_1","name":"F_A","input":{"n":7300000000000000001}},{"type":"tool_use","id":"call_2","name":"F_B","input":{"x":1.50}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"R-ONE"},{"type":"tool_result","tool_use_id":"call_2","content":"R-TWO"},{"type":"text","text":"Q-TWO"}]}"#,
        ["T-ONE", "F_A", "7300000000000000001", "F_B", "1.50", "R-ONE", "R-TWO", "Q-TWO"],
        []
    ),
    messages!(
        "the same tool twice",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"F_A","input":{"a":1}},{"type":"tool_use","id":"call_2","name":"F_A","input":{"a":2}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"R-ONE"},{"type":"tool_result","tool_use_id":"call_2","content":"R-TWO"}]}"#,
        ["F_A", "F_A", "R-ONE", "R-TWO"],
        []
    ),
    messages!(
        "a call with empty arguments",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"F_A","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"R-ONE"}]}"#,
        ["F_A", "{}", "R-ONE"],
        []
    ),
    messages!(
        "a result as blocks",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"F_A","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"R-ONE"},{"type":"text","text":"R-TWO"}]}]}"#,
        ["R-ONE", "R-TWO"],
        []
    ),
    messages!(
        "a result with an image",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"F_A","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aW1hZ2U="}}]}]}"#,
        ["aW1hZ2U="],
        ["messages[2].content[0].content[0]"]
    ),
    messages!(
        "a result that failed",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"F_A","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","is_error":true,"content":"R-ONE"}]}"#,
        ["is_error", "R-ONE"],
        ["messages[2].content[0].is_error"]
    ),
    messages!(
        "text behind a call",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"F_A","input":{}},{"type":"text","text":"T-LATE"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"R-ONE"}]}"#,
        ["F_A", "T-LATE", "R-ONE"],
        ["messages[1].content[1]"]
    ),
    messages!(
        "a call that ran at the provider",
        r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"server_tool_use","id":"srv_731","name":"web_search","input":{}}]},{"role":"user","content":"go"}"#,
        ["srv_731"],
        ["messages[1].content[0]"]
    ),
    Feature {
        of: &["anthropic", "bedrock"],
        ..messages!(
            "signed reasoning",
            r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"T-ONE","signature":"c2ln"},{"type":"text","text":"a"}]},{"role":"user","content":"go"}"#,
            ["T-ONE", "c2ln"],
            []
        )
    },
    Feature {
        of: &["anthropic", "bedrock"],
        ..messages!(
            "redacted reasoning",
            r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"redacted_thinking","data":"cmVk"},{"type":"text","text":"a"}]},{"role":"user","content":"go"}"#,
            ["cmVk"],
            []
        )
    },
    Feature {
        of: &["gemini", "vertex"],
        ..messages!(
            "Google's signature, sealed",
            r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"redacted_thinking","data":"interlock:{\"member\":\"extra_content\",\"value\":{\"google\":{\"thought_signature\":\"c2ln\"}}}"}]},{"role":"user","content":"go"}"#,
            ["c2ln"],
            []
        )
    },
    Feature {
        of: &["gemini", "vertex"],
        ..messages!(
            "Google's signature of a call, sealed",
            r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"call_1","name":"f","input":{}},{"type":"redacted_thinking","data":"interlock:{\"member\":\"extra_content\",\"call\":\"call_1\",\"value\":{\"google\":{\"thought_signature\":\"c2ln\"}}}"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"r"}]}"#,
            ["functionCall", "c2ln"],
            []
        )
    },
    Feature {
        of: &["openai-responses"],
        ..messages!(
            "OpenAI's reasoning, sealed",
            r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"redacted_thinking","data":"interlock:{\"member\":\"reasoning_items\",\"value\":[{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"encrypted_content\":\"c2ln\"}]}"}]},{"role":"user","content":"go"}"#,
            ["rs_1", "c2ln"],
            []
        )
    },
    Feature {
        of: &["anthropic"],
        ..messages!(
            "citations in the history",
            r#"{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"a","citations":[{"type":"char_location","cited_text":"C-ONE","document_index":0,"document_title":null,"start_char_index":0,"end_char_index":5}]}]},{"role":"user","content":"go"}"#,
            ["C-ONE"],
            []
        )
    },
    tool!(
        "tools",
        r#"{"name":"F_A","description":"D-ONE","input_schema":{"type":"object","properties":{"P_A":{"type":"integer","maximum":7300000000000000001}}}}"#,
        ["F_A", "D-ONE", "P_A", "7300000000000000001"],
        []
    ),
    tool!(
        "a tool that says its type",
        r#"{"type":"custom","name":"F_A","input_schema":{"type":"object"}}"#,
        ["F_A"],
        []
    ),
    tool!("a strict tool", r#"{"name":"f","input_schema":{"type":"object"},"strict":true}"#, [], ["tools[0].strict"]),
    tool!(
        "cache control on a tool",
        r#"{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}"#,
        ["ephemeral"],
        ["tools[0].cache_control"]
    ),
    tool!(
        "examples of a tool's input",
        r#"{"name":"f","input_schema":{"type":"object"},"input_examples":[{"a":"E-ONE"}]}"#,
        ["E-ONE"],
        ["tools[0].input_examples"]
    ),
    tool!(
        "an unknown member of a tool",
        r#"{"name":"f","input_schema":{"type":"object"},"x_unknown":"X-ONE"}"#,
        ["X-ONE"],
        ["tools[0].x_unknown"]
    ),
    tool!(
        "a tool that runs at the provider",
        r#"{"type":"web_search_20250305","name":"web_search","max_uses":7301}"#,
        ["7301"],
        ["tools[0]"]
    ),
    with_tool!("tool_choice: none", r#""tool_choice":{"type":"none"}"#, [], ["tool_choice"]),
    with_tool!("tool_choice: any", r#""tool_choice":{"type":"any"}"#, [], ["tool_choice"]),
    with_tool!("tool_choice: one tool", r#""tool_choice":{"type":"tool","name":"f"}"#, [], ["tool_choice"]),
    with_tool!(
        "one call at a time",
        r#""tool_choice":{"type":"auto","disable_parallel_tool_use":true}"#,
        [],
        ["tool_choice.disable_parallel_tool_use"]
    ),
    members!(
        "a schema for the answer",
        r#""output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"P_A":{"type":"integer","maximum":7300000000000000001}}}}}"#,
        ["P_A", "7300000000000000001"],
        ["output_config.format"]
    ),
    members!(
        "an older name for the schema",
        r#""output_format":{"type":"json_schema","schema":{"type":"object","title":"P_A"}}"#,
        ["P_A"],
        ["output_format"]
    ),
    members!("effort", r#""output_config":{"effort":"high"}"#, [], ["output_config.effort"]),
    members!("effort: max", r#""output_config":{"effort":"max"}"#, ["max"], ["output_config.effort"]),
    members!(
        "an unknown member of output_config",
        r#""output_config":{"x_unknown":"X-ONE"}"#,
        ["X-ONE"],
        ["output_config.x_unknown"]
    ),
    members!("thinking", r#""thinking":{"type":"enabled","budget_tokens":3701}"#, ["3701"], ["thinking"]),
    members!("thinking: adaptive", r#""thinking":{"type":"adaptive"}"#, ["adaptive"], ["thinking"]),
    members!("thinking: disabled", r#""thinking":{"type":"disabled"}"#, [], ["thinking"]),
    members!(
        "stop_sequences",
        r#""stop_sequences":["STOP-ONE","STOP-TWO"]"#,
        ["STOP-ONE", "STOP-TWO"],
        ["stop_sequences"]
    ),
    Feature {
        name: "max_tokens",
        with: r#""max_tokens":7301,"messages":[{"role":"user","content":"hi"}]"#,
        marks: &["7301"],
        names: &["max_tokens"],
        ..PLAIN
    },
    members!("temperature", r#""temperature":0.10"#, ["0.10"], ["temperature"]),
    members!("top_p", r#""top_p":9e-1"#, ["9e-1"], ["top_p"]),
    members!("top_k", r#""top_k":731"#, ["731"], ["top_k"]),
    members!("user", r#""metadata":{"user_id":"U-ONE"}"#, ["U-ONE"], ["metadata.user_id"]),
    members!("more metadata", r#""metadata":{"k":"M-ONE"}"#, ["M-ONE"], ["metadata.k"]),
    members!("service_tier: standard only", r#""service_tier":"standard_only""#, [], ["service_tier"]),
    members!("cache control", r#""cache_control":{"type":"ephemeral"}"#, ["ephemeral"], ["cache_control"]),
    members!("container", r#""container":"C-ONE""#, ["C-ONE"], ["container"]),
    members!(
        "context_management",
        r#""context_management":{"edits":[{"type":"E-ONE"}]}"#,
        ["E-ONE"],
        ["context_management"]
    ),
    members!(
        "mcp_servers",
        r#""mcp_servers":[{"type":"url","url":"https://x.example","name":"M-ONE"}]"#,
        ["M-ONE"],
        ["mcp_servers"]
    ),
    members!("inference_geo", r#""inference_geo":"eu""#, ["eu"], ["inference_geo"]),
    members!("x_unknown", r#""x_unknown":{"b":1.50,"a":"X-ONE"}"#, ["1.50", "X-ONE"], ["x_unknown"]),
    members!("stream", r#""stream":true"#, [], ["stream"]),
];
