#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/core/model_size.h"
#include "worker/trainer/model/checkpointed.h"
#include "worker/trainer/model/chunked_cross_entropy.h"
#include "worker/trainer/model/llama_ops.h"
#include "worker/trainer/model/models.h"

namespace paceline {
namespace {

// The type in which matrix products of `x` are computed.
at::ScalarType ProductType(const at::Tensor& x) {
  const c10::DeviceType device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : x.scalar_type();
}

// Casts `x` to the type of its matrix products: once, where several use it.
at::Tensor ForProducts(const at::Tensor& x) { return x.to(ProductType(x)); }

// One layer: attention and a feed-forward network. Each takes a normalised copy of the residual
// stream and adds its result to the stream.
class Block : public Recomputable {
 public:
  struct Weights {
    at::Tensor q, k, v, o;      // [heads * head_dim or kv_heads * head_dim, dim], o transposed.
    at::Tensor gate, up, down;  // [ffn_dim, dim], down transposed.
    at::Tensor attention_norm, ffn_norm;  // [dim]
  };

  // `rotary` must outlive this.
  Block(const LlamaConfig& config, Weights weights, const RotaryTable& rotary)
      : config_(config), weights_(std::move(weights)), rotary_(rotary) {}

  // Null: the matrices are always whole. `gathered` must outlive the block's use.
  void SetGathered(GatheredWeights* gathered) { gathered_ = gathered; }
  void Begin() const override {
    if (gathered_ != nullptr) gathered_->Gather();
  }
  void End() const override {
    if (gathered_ != nullptr) gathered_->Release();
  }

  // Input and output are [batch, length, dim].
  at::Tensor Compute(const at::Tensor& x) const override {
    const at::Tensor h = x.add(Attention(Normalized(x, weights_.attention_norm)));
    return h.add(FeedForward(Normalized(h, weights_.ffn_norm)));
  }

 private:
  // In the type of its matrix products.
  at::Tensor Normalized(const at::Tensor& x, const at::Tensor& weight) const {
    return RmsNorm(x, Widened(weight), config_.norm_epsilon, ProductType(x));
  }

  at::Tensor Attention(const at::Tensor& x) const {
    const int64_t batch = x.size(0);
    const int64_t length = x.size(1);
    const int64_t head_dim = config_.dim / config_.heads;
    const auto heads = [&](const at::Tensor& weight, int64_t count) {
      return at::linear(x, weight).view({batch, length, count, head_dim});
    };
    // To [batch, heads, length, head_dim], without a copy.
    const auto turned = [&](const at::Tensor& weight, int64_t count) {
      return Rotate(heads(weight, count), rotary_).transpose(1, 2);
    };
    const at::Tensor q = turned(weights_.q, config_.heads);
    const at::Tensor k = turned(weights_.k, config_.kv_heads);
    const at::Tensor v = heads(weights_.v, config_.kv_heads).transpose(1, 2);
    const at::Tensor mixed = at::scaled_dot_product_attention(
        q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0, /*is_causal=*/true, /*scale=*/std::nullopt,
        /*enable_gqa=*/config_.kv_heads != config_.heads);
    return at::linear(mixed.transpose(1, 2).reshape({batch, length, config_.dim}), weights_.o);
  }

  at::Tensor FeedForward(const at::Tensor& x) const {
    return at::linear(SwiGlu(at::linear(x, weights_.gate), at::linear(x, weights_.up)),
                      weights_.down);
  }

  const LlamaConfig& config_;
  const Weights weights_;
  const RotaryTable& rotary_;
  GatheredWeights* gathered_ = nullptr;
};

// A decoder-only transformer of the Llama family. Names and order of parameters are those of
// Hugging Face's LlamaForCausalLM.
class Llama : public Classifier {
 public:
  Llama(const LlamaConfig& config, int64_t sequence_length, at::Device device, int64_t chunk_bytes)
      : Classifier(device),
        config_(config),
        sequence_length_(sequence_length),
        chunk_bytes_(chunk_bytes),
        rotary_(MakeRotaryTable(sequence_length, config.dim / config.heads, config.rope_theta,
                                device)) {
    embedding_ = AddMatrix("model.embed_tokens.weight", config_.vocab_size, config_.dim);
    for (int64_t layer = 0; layer < config_.layers; ++layer) AddBlock(layer);
    norm_ = AddParameter("model.norm.weight", at::ones({config_.dim}));
    head_ = config_.tie_embeddings ? embedding_
                                   : AddMatrix("lm_head.weight", config_.vocab_size, config_.dim);
  }

  // Maps tokens [batch, length], at most the sequence length, to [batch, length, vocab_size].
  at::Tensor Forward(const at::Tensor& tokens) override {
    return at::linear(Hidden(tokens), head_);
  }

  at::Tensor Loss(const Batch& batch) override {
    const int64_t chunk_tokens = ChunkTokensOf(batch);
    if (chunk_tokens == batch.targets.numel()) return Classifier::Loss(batch);
    const at::Tensor hidden = Hidden(batch.inputs).flatten(0, -2);
    return ChunkedCrossEntropy(hidden, head_, batch.targets.flatten(), chunk_tokens,
                               ProductType(hidden));
  }

  Score Evaluate(const Batch& batch) override {
    const int64_t chunk_tokens = ChunkTokensOf(batch);
    const at::Tensor targets = batch.targets.flatten();
    if (chunk_tokens == targets.numel()) return Classifier::Evaluate(batch);
    at::NoGradGuard no_grad;
    const at::Tensor hidden = ForProducts(Hidden(batch.inputs).flatten(0, -2));
    const at::Tensor head = ForProducts(head_);
    at::Tensor sums;
    for (int64_t begin = 0; begin < targets.numel(); begin += chunk_tokens) {
      const int64_t count = std::min(chunk_tokens, targets.numel() - begin);
      const at::Tensor more =
          SumsOf(at::linear(hidden.narrow(0, begin, count), head), targets.narrow(0, begin, count));
      sums = sums.defined() ? sums.add(more) : more;
    }
    return ScoreOf(sums, targets.numel());
  }

  void SetGatheredBlocks(const std::vector<GatheredWeights*>& blocks) override {
    TORCH_CHECK(config_.checkpoint_activations && blocks.size() == blocks_.size(), "of a llama of ",
                blocks_.size(), " blocks with checkpoint_activations ",
                config_.checkpoint_activations, ", ", blocks.size(), " blocks were to be gathered");
    for (size_t i = 0; i < blocks.size(); ++i) blocks_[i].SetGathered(blocks[i]);
  }

  Flops FlopsPerSample() const override {
    const LlamaSize size{config_.dim,           config_.layers,  config_.heads,
                         config_.kv_heads,      config_.ffn_dim, config_.vocab_size,
                         config_.tie_embeddings};
    Flops flops;
    flops.matrices =
        FlopsPerToken(LlamaCost(size), sequence_length_) * static_cast<double>(sequence_length_);
    return flops;
  }

 private:
  // The normalised residual stream behind the last block: [batch, length, dim].
  at::Tensor Hidden(const at::Tensor& tokens) const {
    at::Tensor x = at::embedding(Widened(embedding_), tokens);
    for (const Block& block : blocks_) {
      if (config_.checkpoint_activations && x.requires_grad()) {
        x = Checkpointed(block, x);
        continue;
      }
      block.Begin();
      x = block.Compute(x);
      block.End();
    }
    return RmsNorm(x, Widened(norm_), config_.norm_epsilon, x.scalar_type());
  }

  int64_t ChunkTokensOf(const Batch& batch) const {
    return LogitsChunkTokens(batch.targets.numel(), config_.vocab_size, chunk_bytes_);
  }

  // Normal distribution with standard deviation 0.02.
  at::Tensor AddMatrix(std::string name, int64_t rows, int64_t columns) {
    return AddParameter(std::move(name), at::empty({rows, columns}).normal_(0, 0.02));
  }

  void AddBlock(int64_t layer) {
    const std::string name = absl::StrCat("model.layers.", layer, ".");
    const int64_t kv_dim = config_.dim / config_.heads * config_.kv_heads;
    Block::Weights weights;
    weights.q = AddMatrix(name + "self_attn.q_proj.weight", config_.dim, config_.dim);
    weights.k = AddMatrix(name + "self_attn.k_proj.weight", kv_dim, config_.dim);
    weights.v = AddMatrix(name + "self_attn.v_proj.weight", kv_dim, config_.dim);
    weights.o = AddMatrix(name + "self_attn.o_proj.weight", config_.dim, config_.dim);
    weights.gate = AddMatrix(name + "mlp.gate_proj.weight", config_.ffn_dim, config_.dim);
    weights.up = AddMatrix(name + "mlp.up_proj.weight", config_.ffn_dim, config_.dim);
    weights.down = AddMatrix(name + "mlp.down_proj.weight", config_.dim, config_.ffn_dim);
    weights.attention_norm = AddParameter(name + "input_layernorm.weight", at::ones({config_.dim}));
    weights.ffn_norm =
        AddParameter(name + "post_attention_layernorm.weight", at::ones({config_.dim}));
    blocks_.emplace_back(config_, std::move(weights), rotary_);
  }

  const LlamaConfig config_;
  const int64_t sequence_length_;
  const int64_t chunk_bytes_;
  const RotaryTable rotary_;
  at::Tensor embedding_;  // [vocab_size, dim]
  std::vector<Block> blocks_;
  at::Tensor norm_;
  at::Tensor head_;
};

}  // namespace

std::unique_ptr<Classifier> MakeLlama(const LlamaConfig& config, int64_t sequence_length,
                                      at::Device device, int64_t chunk_bytes) {
  return std::make_unique<Llama>(config, sequence_length, device, chunk_bytes);
}

}  // namespace paceline
