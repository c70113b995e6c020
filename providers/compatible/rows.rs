//! Providers that speak OpenAI's chat protocol, each with what is known of its departures and where that was read.
//!
//! Where a shape of errors is not known, OpenAI's is assumed: an error in any other proves nothing and leaves the
//! attempt unknown, which is the safe side. None of these documents an idempotency key or a look-up of lost answers.

use std::borrow::Cow;

use super::{Auth, ChatPath, ErrorShape, LIKE_OPENAI, Row};
use crate::canonical::Finish;

pub(super) const COMPATIBLE: &[Row] = &[
    Row {
        // Base URL: https://RESOURCE.openai.azure.com. A 400 may be billed (content filter, input limit), and so may a
        // 408: what a failure cost is not known there, never zero. 401 and 429 are not charged.
        name: "azure-openai",
        auth: Auth::Header("api-key"),
        path: ChatPath::Deployment,
        api_version: Some(Cow::Borrowed("2024-10-21")),
        source: "facts 2.1-2.3; learn.microsoft.com/azure/ai-services/openai/reference, 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        // Base URL: https://RESOURCE.openai.azure.com/openai/v1.
        name: "azure-openai-v1",
        auth: Auth::Header("api-key"),
        source: "facts 2.1: /openai/v1/*, api-key; recorded requests, 2026-08",
        ..LIKE_OPENAI
    },
    Row {
        // Base URL: https://RESOURCE.services.ai.azure.com/models.
        name: "azure-models",
        auth: Auth::Header("api-key"),
        api_version: Some(Cow::Borrowed("2024-05-01-preview")),
        source: "recorded requests to services.ai.azure.com/models, errors included, 2026-08",
        ..LIKE_OPENAI
    },
    Row {
        // Base URL: https://generativelanguage.googleapis.com/v1beta/openai.
        name: "gemini-openai",
        error_shapes: &[ErrorShape::Google, ErrorShape::OpenAi],
        google_signatures: true,
        source: "ai.google.dev/gemini-api/docs/openai; extra_content as seen in answers, 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        // 424: generation failed; 429: overloaded; 500: incomplete generation.
        name: "tgi",
        error_shapes: &[ErrorShape::TextAndType],
        overloaded_statuses: &[429],
        ended_statuses: &[424],
        finish_words: &[("eos_token", Finish::Stop), ("stop_sequence", Finish::Stop)],
        source: "facts 2.1-2.3: TGI's docs/openapi.json; 2026-11",
        ..LIKE_OPENAI
    },
    Row {
        // `abort` as a finish reason is a failure, as for vLLM. Usage has `prompt_tokens_details` only on request.
        name: "sglang",
        error_shapes: &[ErrorShape::TopLevel, ErrorShape::OpenAi],
        source: "facts 2.1; sglang srt/entrypoints/openai/protocol.py, read 2026-11-30",
        ..LIKE_OPENAI
    },
    Row {
        name: "cerebras",
        developer_role: false,
        refused: &["frequency_penalty", "logit_bias", "presence_penalty", "parallel_tool_calls", "service_tier"],
        source: "inference-docs.cerebras.ai/resources/openai; hexdocs.pm/req_llm/cerebras: 400 for these, 2026-11-30",
        ..LIKE_OPENAI
    },
    Row {
        // A 429 "engine is currently overloaded" is admission, like a rate limit.
        name: "moonshot",
        source: "kimi.com/code/docs error reference; MoonshotAI/kimi-cli issue 2011 (too long), read 2026-11-30",
        ..LIKE_OPENAI
    },
    Row {
        // Base URL: https://api.perplexity.ai, without a version. Citations stand beside the choices and pass through.
        name: "perplexity",
        source: "docs.perplexity.ai/docs/sonar/openai-compatibility: /chat/completions is an alias, read 2026-11-30",
        ..LIKE_OPENAI
    },
    Row {
        // Base URL: https://dashscope-intl.aliyuncs.com/compatible-mode/v1, or the one of its region.
        name: "dashscope",
        source: "help.aliyun.com/document_detail/2788813 (compatible mode), read 2026-11-30; no deviation recorded",
        ..LIKE_OPENAI
    },
    Row {
        // Base URL: https://open.bigmodel.cn/api/paas/v4.
        name: "zhipu",
        source: "docs.bigmodel.cn/api-reference: errors {error: {code, message}}, read 2026-11-30",
        ..LIKE_OPENAI
    },
    Row {
        // 429 comes before any processing: input and reserved output are checked at admission.
        name: "databricks",
        source: "learn.microsoft.com/azure/databricks/machine-learning/foundation-model-apis/limits, read 2026-11-30",
        ..LIKE_OPENAI
    },
    Row {
        name: "scaleway",
        refused: &[
            "audio",
            "frequency_penalty",
            "logit_bias",
            "metadata",
            "modalities",
            "n",
            "prediction",
            "prompt_cache_key",
            "safety_identifier",
            "service_tier",
            "store",
            "top_logprobs",
            "user",
        ],
        source: "scaleway.com/en/developers/api/generative-apis; docs/generative-apis/api-cli/using-chat-api, 2026-12-01",
        ..LIKE_OPENAI
    },
    Row {
        // Base URL: https://api.together.ai/v1, as its page has it, or https://api.together.xyz/v1. Prompt and
        // `max_tokens` together must be below the window, and its page says 403 for that (400 and 422 with TGI's words were
        // seen too). 402 is the account's limit of spending, 503 an overloaded engine. Which parameters it ignores, how it
        // counts, an idempotency key, a look-up of chat completions: not documented there.
        name: "together",
        context_statuses: &[403],
        source: "docs.together.ai/docs/error-codes; docs/inference/openai-compatibility, read 2026-12-01",
        ..LIKE_OPENAI
    },
    Row {
        // Base URL: https://api.fireworks.ai/inference/v1. Where prompt and `max_tokens` are above the window it lowers
        // `max_tokens`, unless `context_length_exceeded_behavior` is `error`. A stream's last chunk brings the usage. 412:
        // the account is suspended, or a LoRA model failed to load. How it counts, an idempotency key, a look-up: not
        // documented there.
        name: "fireworks",
        setup_statuses: &[412],
        source: "docs.fireworks.ai/tools-sdks/migrate-to-fireworks; guides/inference-error-codes, read 2026-12-01",
        ..LIKE_OPENAI
    },
    Row {
        // Base URL: http://127.0.0.1:1234/v1. Chat completions keep nothing (only its /v1/responses are stateful), so a
        // lost answer cannot be looked up. What it ignores, how it counts, its errors' shape and an idempotency key:
        // not documented there.
        name: "lm-studio",
        source: "lmstudio.ai/docs/api/openai-api and /rest-api (table of endpoints), read 2026-12-01",
        ..LIKE_OPENAI
    },
    Row {
        // Release 2 is served by vLLM, with its /tokenize beside /v1; release 1 is not, and neither is said of the
        // hosted service, so no counting endpoint stands here. What is refused or ignored, the errors' shape, an
        // idempotency key, a look-up of chat completions: not documented there.
        name: "nvidia-nim",
        source: "docs.nvidia.com/nim/large-language-models/2.0.4-pb6/reference/api-reference, read 2026-12-01",
        ..LIKE_OPENAI
    },
    Row {
        // Base URL: https://api.deepinfra.com/v1/openai. A stream's last chunk brings the usage. What is refused or
        // ignored, the errors' shape, an idempotency key, a look-up: not documented there.
        name: "deepinfra",
        source: "deepinfra.com/docs/openai_api, read 2026-12-01",
        ..LIKE_OPENAI
    },
    Row {
        // A router: what is refused, how it is counted and what an error
        // proves is up to the provider behind it; nothing of it, nor an idempotency key or a look-up, was found
        // documented.
        name: "huggingface",
        source: "oumi.ai/docs: HuggingFaceRouterInferenceEngine (a router to partners), read 2026-12-01",
        ..LIKE_OPENAI
    },
    Row {
        // These three are taken and ignored. `n` above 1 together with tools is its own 400. The errors' shape, how it
        // counts, an idempotency key, a look-up: not documented there.
        name: "sambanova",
        refused: &["frequency_penalty", "logit_bias", "presence_penalty"],
        source: "docs.sambanova.ai/docs/en/v1.0.57/features/openai-compatibility: 'will be ignored', read 2026-12-01",
        ..LIKE_OPENAI
    },
    Row {
        // Base URL: https://inference.baseten.co/v1. Which parameters work varies by model; prompts are cached unasked,
        // and billed so. The errors' shape, an idempotency key, a look-up: not documented there.
        name: "baseten",
        source: "docs.baseten.co/inference/model-apis/overview, read 2026-12-01",
        ..LIKE_OPENAI
    },
    Row {
        // Base URL: https://api.cloudflare.com/client/v4/accounts/ACCOUNT/ai/v1. What is refused or ignored, how it
        // counts, the errors' shape, an idempotency key, a look-up: not documented there.
        name: "cloudflare",
        source: "developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility, read 2026-12-01",
        ..LIKE_OPENAI
    },
];
