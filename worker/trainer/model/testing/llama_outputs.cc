// Runs a Llama once, to compare it with other programs in tests/parity.
//
//   llama_outputs --dim 64 --layers 2 --heads 4 --kv-heads 2 --ffn-dim 96 --vocab-size 100
//       [--theta T] [--epsilon E] [--tied] [--checkpoint] --weights FILE --batch FILE --out FILE
//
// Files are safetensors. The batch has int64 tensors "inputs" and "targets", [samples, length].
// Writes "logits", "loss" and "grad.<parameter>" for each parameter.
#include <ATen/ops/from_blob.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/safetensors/safetensors.h"
#include "worker/trainer/checkpoint/weights.h"
#include "worker/trainer/model/models.h"

namespace paceline {
namespace {

struct Flags {
  LlamaConfig config;
  std::string weights;
  std::string batch;
  std::string out;
};

void Parse(CLI::App& app, Flags& flags) {
  LlamaConfig& config = flags.config;
  config.rope_theta = 1e4;
  app.add_option("--dim", config.dim)->required();
  app.add_option("--layers", config.layers)->required();
  app.add_option("--heads", config.heads)->required();
  app.add_option("--kv-heads", config.kv_heads)->required();
  app.add_option("--ffn-dim", config.ffn_dim)->required();
  app.add_option("--vocab-size", config.vocab_size)->required();
  app.add_option("--theta", config.rope_theta);
  app.add_option("--epsilon", config.norm_epsilon);
  app.add_flag("--tied", config.tie_embeddings);
  app.add_flag("--checkpoint", config.checkpoint_activations);
  app.add_option("--weights", flags.weights)->required();
  app.add_option("--batch", flags.batch)->required();
  app.add_option("--out", flags.out)->required();
}

Safetensor Entry(const std::string& name, const at::Tensor& tensor) {
  return {name,
          "F32",
          tensor.sizes().vec(),
          {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

absl::Status Run(const Flags& flags) {
  absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(flags.batch);
  if (!file.ok()) return file.status();
  Batch batch;
  for (const Safetensor& entry : file->tensors()) {
    at::Tensor& to = entry.name == "inputs" ? batch.inputs : batch.targets;
    to = at::from_blob(const_cast<char*>(entry.bytes.data()), entry.shape, at::kLong).clone();
  }
  const std::unique_ptr<Classifier> model = MakeLlama(flags.config, batch.inputs.size(1), at::kCPU);
  const absl::Status loaded = LoadWeights(flags.weights, *model).status();
  if (!loaded.ok()) return loaded;

  const at::Tensor logits = model->Forward(batch.inputs).detach().contiguous();
  at::Tensor loss = model->Loss(batch);
  loss.backward();
  loss = loss.detach();
  std::vector<Safetensor> entries = {Entry("logits", logits), Entry("loss", loss)};
  std::vector<at::Tensor> gradients;  // Keeps the bytes alive.
  for (const NamedTensor& named : model->parameters()) {
    gradients.push_back(named.tensor.grad().contiguous());
    entries.push_back(Entry(absl::StrCat("grad.", named.name), gradients.back()));
  }
  return WriteSafetensors(flags.out, entries);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  paceline::Flags flags;
  CLI::App app("Runs a Llama once.");
  paceline::Parse(app, flags);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = paceline::Run(flags);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
