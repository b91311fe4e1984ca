// paceline checkpoint list, describe, verify and export: existing checkpoints and their contents.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/checkpoint/byte_bar.h"
#include "cli/verbs/checkpoint/checkpoint_location.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/checkpoint/checkpoint_page.h"
#include "cli/view/checkpoint/checkpoint_text.h"
#include "cli/view/numbers.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/core/status_macros.h"
#include "common/export/export.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

constexpr int kMostPerPage = 1000;

struct CheckpointListFlags {
  std::string job;
  int limit = 50;
};

// Fetches pages until there are `limit` checkpoints, or no more.
grpc::Status FetchCheckpoints(Program& program, const CheckpointListFlags& flags,
                              v1::ListCheckpointsResponse* checkpoints) {
  v1::ListCheckpointsRequest request;
  request.set_job(flags.job);
  do {
    request.set_page_size(std::min(kMostPerPage, flags.limit - checkpoints->checkpoints_size()));
    v1::ListCheckpointsResponse page;
    const grpc::Status status = program.client().Call(methods::kCheckpointList, request, &page);
    if (!status.ok()) return status;
    checkpoints->mutable_checkpoints()->MergeFrom(page.checkpoints());
    checkpoints->set_next_page_token(page.next_page_token());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && checkpoints->checkpoints_size() < flags.limit);
  return grpc::Status::OK;
}

// Returns the job's name if it refers to this job now, else its id.
std::string TypedJob(Program& program, const v1::Checkpoint& checkpoint) {
  v1::GetJobRequest request;
  request.set_job(checkpoint.job_name());
  v1::Job newest;
  const bool found = program.client().Call(methods::kJobGet, request, &newest).ok();
  return SanitizeLine(found && newest.id() == checkpoint.job_id() ? checkpoint.job_name()
                                                                  : checkpoint.job_id());
}

// Returns a name for each checkpoint that the controller understands: JOB/STEP, with the generation
// if a later one has saved the same step.
std::vector<std::string> TypedNames(Program& program,
                                    const v1::ListCheckpointsResponse& checkpoints) {
  std::map<std::string, std::string> jobs;
  std::map<std::pair<std::string, int64_t>, int64_t> newest;
  for (const v1::Checkpoint& checkpoint : checkpoints.checkpoints()) {
    const std::string& job = checkpoint.job_id();
    if (jobs.count(job) == 0) jobs[job] = TypedJob(program, checkpoint);
    int64_t& generation = newest[{job, checkpoint.step()}];
    generation = std::max(generation, checkpoint.generation());
  }
  std::vector<std::string> names;
  for (const v1::Checkpoint& checkpoint : checkpoints.checkpoints()) {
    const std::string& job = checkpoint.job_id();
    names.push_back(absl::StrCat(jobs[job], "/", checkpoint.step()));
    if (checkpoint.generation() < newest[{job, checkpoint.step()}]) {
      absl::StrAppend(&names.back(), ".g", checkpoint.generation());
    }
  }
  return names;
}

int ListCheckpoints(Program& program, const CheckpointListFlags& flags) {
  v1::ListCheckpointsResponse checkpoints;
  const grpc::Status status = FetchCheckpoints(program, flags, &checkpoints);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(checkpoints);
    return kCliOk;
  }
  if (program.names()) {
    for (const std::string& name : TypedNames(program, checkpoints)) program.out() << name << "\n";
    return kCliOk;
  }
  if (checkpoints.checkpoints().empty()) {
    program.Note("no checkpoints yet; `checkpoint` in the job file says when there are some");
    return kCliOk;
  }
  program.out() << CheckpointTable(checkpoints, TypedNames(program, checkpoints), absl::Now(),
                                   program.style())
                << std::flush;
  if (!checkpoints.next_page_token().empty()) {
    program.Note(absl::StrCat("there are more; --limit shows more than ", flags.limit));
  }
  return kCliOk;
}

void AddCheckpointList(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<CheckpointListFlags>();
  CLI::App* verb = parent.add_subcommand("list", "List checkpoints, newest first");
  verb->add_option("JOB", flags->job,
                   "Only of this job: id, unique beginning of an id, or name. Default: all");
  verb->add_option("--limit", flags->limit, "List at most so many checkpoints")
      ->check(WholeNumber(1, 1000000))
      ->capture_default_str();
  RunWith(*verb, program, flags, ListCheckpoints);
}

struct CheckpointDescribeFlags {
  std::string checkpoint;
  bool tensors = false;
};

int ShowFacts(Program& program, const CheckpointFacts& facts, bool tensors) {
  if (program.json()) {
    nlohmann::json json;
    json["checkpoint"] = nullptr;
    json["manifest"] = nullptr;
    if (facts.checkpoint.has_value()) {
      json["checkpoint"] = nlohmann::json::parse(program.JsonOf(*facts.checkpoint));
    }
    if (facts.manifest.has_value()) {
      json["manifest"] = nlohmann::json::parse(FormatManifest(*facts.manifest));
    }
    program.PrintJsonText(json.dump(1));
    return kCliOk;
  }
  program.out() << (tensors ? TensorTable(*facts.manifest, program.style())
                            : CheckpointPage(facts, absl::Now(), program.style()))
                << std::flush;
  return kCliOk;
}

int DescribeCheckpoint(Program& program, const CheckpointDescribeFlags& flags) {
  CheckpointLocation location;
  const int found = FindCheckpoint(program, flags.checkpoint, &location);
  if (found != kCliOk) return found;
  CheckpointFacts facts;
  facts.checkpoint = location.checkpoint;
  facts.directory = location.directory;
  const absl::StatusOr<CheckpointFiles> files = CheckpointFiles::Open(location.directory);
  if (files.ok()) {
    facts.manifest = files->manifest();
    const absl::StatusOr<v1::JobSpec> spec = SpecOf(*facts.manifest);
    if (!spec.ok()) return program.Fail(spec.status());
    facts.spec = *spec;
  } else if (!facts.checkpoint.has_value() || flags.tensors) {
    return program.Fail(Explained(files.status(), location));
  }
  const int exit = ShowFacts(program, facts, flags.tensors);
  if (!files.ok()) {
    program.Note(absl::StrCat("what the files hold is not shown: ",
                              std::string(Explained(files.status(), location).message())));
  }
  return exit;
}

void AddCheckpointDescribe(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<CheckpointDescribeFlags>();
  CLI::App* verb = parent.add_subcommand(
      "describe", "Show everything about a checkpoint: step, ranks, tensors, files, job file");
  verb->add_option("CHECKPOINT", flags->checkpoint, kCheckpointHelp)
      ->check(PlainPath())
      ->required();
  verb->add_flag("--tensors", flags->tensors, "List every tensor instead");
  RunWith(*verb, program, flags, DescribeCheckpoint);
}

// What was read, and what is wrong with it.
struct Verdict {
  int64_t bytes = 0;
  std::vector<std::string> damages;
};

absl::StatusOr<Verdict> Verify(Program& program, const std::string& directory) {
  Verdict verdict;
  ByteBar bar(program, "verifying");
  absl::StatusOr<std::vector<std::string>> damages =
      VerifyCheckpoint(directory, [&](int64_t done, int64_t all) {
        verdict.bytes = done;
        bar.Show(done, all);
      });
  if (!damages.ok()) return damages.status();
  verdict.damages = *std::move(damages);
  return verdict;
}

int TellVerdict(Program& program, const std::string& directory, const Verdict& verdict) {
  const bool sound = verdict.damages.empty();
  if (program.json()) {
    const nlohmann::json json = {{"directory", directory},
                                 {"sound", sound},
                                 {"bytes_read", verdict.bytes},
                                 {"damages", verdict.damages}};
    program.PrintJsonText(json.dump(1));
    return sound ? kCliOk : kCliFailed;
  }
  for (const std::string& damage : verdict.damages) {
    program.out() << SanitizeLine(damage) << "\n";
  }
  program.out() << std::flush;
  if (sound) {
    program.out() << SanitizeLine(directory) << " is sound: all " << BytesText(verdict.bytes)
                  << " are as they were saved" << std::endl;
    return kCliOk;
  }
  const size_t count = verdict.damages.size();
  return program.Fail(kCliFailed,
                      absl::StrCat(SanitizeLine(directory), " is damaged in ",
                                   count == 1 ? "one place" : absl::StrCat(count, " places")));
}

int VerifyNamed(Program& program, const std::string& text) {
  CheckpointLocation location;
  const int found = FindCheckpoint(program, text, &location);
  if (found != kCliOk) return found;
  const absl::StatusOr<Verdict> verdict = Verify(program, location.directory);
  if (!verdict.ok()) return program.Fail(Explained(verdict.status(), location));
  return TellVerdict(program, location.directory, *verdict);
}

void AddCheckpointVerify(CLI::App& parent, Program& program) {
  const auto checkpoint = std::make_shared<std::string>();
  CLI::App* verb =
      parent.add_subcommand("verify", "Read all of a checkpoint and compare it with its checksums");
  verb->add_option("CHECKPOINT", *checkpoint, kCheckpointHelp)->check(PlainPath())->required();
  verb->callback([checkpoint, &program] {
    program.action = [checkpoint, &program] { return VerifyNamed(program, *checkpoint); };
  });
}

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
  // A listener keeps the first Ctrl-C from ending the process before the file is removed.
  const Interrupt::Listener listener(program.interrupt(), [] {});
  options.is_cancelled = [&program] { return program.interrupt().raised(); };
  options.on_progress = [&bar](int64_t done, int64_t all) { bar.Show(done, all); };
  const bool hugging_face =
      flags.format == "hf" ||
      (flags.format == "auto" && spec.model().has_llama() && !NamesAFile(flags.to));
  const std::string to = AbsolutePath(flags.to);
  return hugging_face ? ExportHuggingFace(files, to, options) : ExportFile(files, to, options);
}

// Whether the path names a file for torch.load, which this program does not write.
bool NamesAPickle(const std::string& path) {
  return absl::EndsWith(path, ".pt") || absl::EndsWith(path, ".pth") ||
         absl::EndsWith(path, ".bin");
}

int RefusePickle(Program& program, const std::string& to) {
  const std::string stem = to.substr(0, to.rfind('.'));
  const int exit =
      program.Fail(kCliUsage, absl::StrCat(SanitizeLine(to),
                                           " would be a file of torch.save, which is not "
                                           "written; export to ",
                                           SanitizeLine(stem), ".safetensors, and in Python:"));
  program.err() << "  import safetensors.torch, torch\n"
                << "  state = safetensors.torch.load_file(\"" << SanitizeLine(stem)
                << ".safetensors\")\n"
                << "  torch.save(state, \"" << SanitizeLine(to) << "\")" << std::endl;
  return exit;
}

int ExportCheckpoint(Program& program, const CheckpointExportFlags& flags) {
  if (NamesAPickle(flags.to)) return RefusePickle(program, flags.to);
  CheckpointLocation location;
  const int found = FindCheckpoint(program, flags.checkpoint, &location);
  if (found != kCliOk) return found;
  const absl::StatusOr<ExportResult> result = Export(program, flags, location.directory);
  if (!result.ok()) return program.Fail(Explained(result.status(), location));
  if (program.json()) {
    const nlohmann::json json = {
        {"tensors", result->tensors}, {"bytes", result->bytes}, {"files", result->files}};
    program.PrintJsonText(json.dump(1));
    return kCliOk;
  }
  const size_t files = result->files.size();
  program.out() << result->tensors << " tensors, " << BytesText(result->bytes) << ", in "
                << SanitizeLine(flags.to)
                << (files == 1 ? "" : absl::StrCat(" (", files, " files)")) << std::endl;
  return kCliOk;
}

void AddCheckpointExport(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<CheckpointExportFlags>();
  CLI::App* verb =
      parent.add_subcommand("export", "Write the model of a checkpoint for other programs");
  verb->add_option("CHECKPOINT", flags->checkpoint, kCheckpointHelp)
      ->check(PlainPath())
      ->required();
  verb->add_option("--to", flags->to,
                   "A new directory (hf), or a file, which is replaced if it is there")
      ->check(PlainPath())
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
  RunWith(*verb, program, flags, ExportCheckpoint);
}

}  // namespace

void AddCheckpointViews(CLI::App& parent, Program& program) {
  AddCheckpointList(parent, program);
  AddCheckpointDescribe(parent, program);
}

void AddCheckpointFiles(CLI::App& parent, Program& program) {
  AddCheckpointVerify(parent, program);
  AddCheckpointExport(parent, program);
}

}  // namespace paceline
