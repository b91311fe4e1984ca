// paceline checkpoint export CHECKPOINT|PATH --to DIR|FILE
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/text/neutral.h"
#include "cli/verbs/byte_bar.h"
#include "cli/verbs/checkpoint_place.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/numbers.h"
#include "common/core/status_macros.h"
#include "common/export/export.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

struct CheckpointExportFlags {
  std::string checkpoint;
  std::string to;
  std::string format = "auto";
  std::string dtype = "fp32";
  uint64_t max_shard_bytes = 5'000'000'000;
};

bool NamesAFile(const std::string& path) { return absl::EndsWith(path, ".safetensors"); }

FloatFormat FloatsOf(const std::string& dtype) {
  if (dtype == "bf16") return FloatFormat::kBf16;
  return dtype == "fp16" ? FloatFormat::kFp16 : FloatFormat::kFp32;
}

absl::StatusOr<ExportResult> Export(Program& program, const CheckpointExportFlags& flags,
                                    const std::string& directory) {
  PACELINE_ASSIGN_OR_RETURN(const CheckpointFiles files, CheckpointFiles::Open(directory));
  PACELINE_ASSIGN_OR_RETURN(const v1::JobSpec spec, SpecOf(files.manifest()));
  ByteBar bar(program, "exporting");
  ExportOptions options;
  options.floats = FloatsOf(flags.dtype);
  options.max_file_bytes = static_cast<int64_t>(flags.max_shard_bytes);
  // Listening keeps the first Ctrl-C from ending the process before what was written is removed.
  const Interrupt::Listener listener(program.interrupt(), [] {});
  options.is_cancelled = [&program] { return program.interrupt().raised(); };
  options.on_progress = [&bar](int64_t done, int64_t all) { bar.Show(done, all); };
  const bool hugging_face =
      flags.format == "hf" ||
      (flags.format == "auto" && spec.model().has_llama() && !NamesAFile(flags.to));
  const std::string to = AbsolutePath(flags.to);
  return hugging_face ? ExportHuggingFace(files, to, options) : ExportFile(files, to, options);
}

// What torch.load reads is not written here.
bool NamesAPickle(const std::string& path) {
  return absl::EndsWith(path, ".pt") || absl::EndsWith(path, ".pth") ||
         absl::EndsWith(path, ".bin");
}

int RefusePickle(Program& program, const std::string& to) {
  const std::string stem = to.substr(0, to.rfind('.'));
  const int exit =
      program.Fail(kCliUsage, absl::StrCat(NeutralLine(to),
                                           " would be a file of torch.save, which is not "
                                           "written; export to ",
                                           NeutralLine(stem), ".safetensors, and in Python:"));
  program.err() << "  import safetensors.torch, torch\n"
                << "  state = safetensors.torch.load_file(\"" << NeutralLine(stem)
                << ".safetensors\")\n"
                << "  torch.save(state, \"" << NeutralLine(to) << "\")" << std::endl;
  return exit;
}

int ExportCheckpoint(Program& program, const CheckpointExportFlags& flags) {
  if (NamesAPickle(flags.to)) return RefusePickle(program, flags.to);
  CheckpointPlace place;
  const int found = FindCheckpoint(program, flags.checkpoint, &place);
  if (found != kCliOk) return found;
  const absl::StatusOr<ExportResult> result = Export(program, flags, place.directory);
  if (!result.ok()) return program.Fail(Explained(result.status(), place));
  if (program.json()) {
    const nlohmann::json json = {
        {"tensors", result->tensors}, {"bytes", result->bytes}, {"files", result->files}};
    program.PrintJsonText(json.dump(1));
    return kCliOk;
  }
  const size_t files = result->files.size();
  program.out() << result->tensors << " tensors, " << BytesText(result->bytes) << ", in "
                << NeutralLine(flags.to) << (files == 1 ? "" : absl::StrCat(" (", files, " files)"))
                << std::endl;
  return kCliOk;
}

}  // namespace

void AddCheckpointExport(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<CheckpointExportFlags>();
  CLI::App* verb =
      parent.add_subcommand("export", "Write the model of a checkpoint for other programs");
  verb->add_option("CHECKPOINT", flags->checkpoint, kCheckpointHelp)->required();
  verb->add_option("--to", flags->to,
                   "A new directory (hf), or a file, which is replaced if it is there")
      ->required();
  verb->add_option("--format", flags->format,
                   "hf: a directory as Hugging Face's transformers reads it, of llamas; "
                   "safetensors: one file; auto: hf for a llama unless --to ends in .safetensors")
      ->check(CLI::IsMember({"auto", "hf", "safetensors"}))
      ->capture_default_str();
  verb->add_option("--dtype", flags->dtype, "Number format of what is fp32 in the checkpoint")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->capture_default_str();
  verb->add_option("--max-shard-size", flags->max_shard_bytes,
                   "Of each file of hf, such as 500MB or 2GiB")
      ->transform(Size())
      ->default_str("5GB");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ExportCheckpoint(program, *flags); };
  });
}

}  // namespace paceline
