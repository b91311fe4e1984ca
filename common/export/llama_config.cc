#include "common/export/llama_config.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace paceline {

std::string LlamaConfigJson(const v1::JobSpec& spec, FloatFormat floats) {
  const v1::Llama& llama = spec.model().llama();
  // Weights that are saved in bfloat16 are exported as they are.
  const bool is_bf16 = spec.precision() == v1::BF16_FULL;
  nlohmann::json json = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"hidden_size", llama.dim()},
      {"num_hidden_layers", llama.layers()},
      {"num_attention_heads", llama.heads()},
      {"num_key_value_heads", llama.kv_heads()},
      {"head_dim", llama.dim() / llama.heads()},
      {"intermediate_size", llama.ffn_dim()},
      {"vocab_size", llama.vocab_size()},
      {"max_position_embeddings", spec.data().sequence_length()},
      {"rope_theta", llama.rope_theta()},
      {"rms_norm_eps", llama.norm_epsilon()},
      {"tie_word_embeddings", llama.tie_embeddings()},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"torch_dtype", TorchNameOf(is_bf16 ? FloatFormat::kBf16 : floats)},
      // A job has no tokenizer; LlamaConfig's defaults would be another tokenizer's.
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
  };
  return absl::StrCat(json.dump(2), "\n");
}

}  // namespace paceline
