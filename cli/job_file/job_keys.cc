#include "cli/job_file/job_keys.h"

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace paceline {
namespace {

// "chaos[12].rank" as "chaos[].rank".
std::string WithoutIndices(absl::string_view path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    if (c == ']') inside = false;
    if (!inside) out += c;
    if (c == '[') inside = true;
  }
  return out;
}

}  // namespace

const std::vector<JobKey>& JobKeys() {
  using T = KeyType;
  // clang-format off
  static const std::vector<JobKey>* const keys = new std::vector<JobKey>{
      {"name", T::kText, "", "required", "1 to 63 lower-case letters, digits, hyphens; a letter first", "digits-resnet18",
       "Name for people; need not be unique."},
      {"ranks", T::kInteger, "", "1", "1 to 4096", "4", "Number of ranks, one trainer process each.", true},
      {"device", T::kChoice, "", "cpu", "cpu, cuda", "cpu",
       "Where ranks compute: each takes a slot (cpu) or a GPU (cuda) of its node."},
      {"threads_per_rank", T::kInteger, "", "0", "0 to 1024", "1",
       "CPU threads of each rank's tensor operations; 0 is the node's cores divided by its slots."},
      {"queue", T::kText, "", "default", "a name as of jobs, of a queue that the controller knows", "research",
       "The queue that the job waits in."},
      {"priority", T::kInteger, "", "0", "-1000 to 1000", "10",
       "Jobs of a higher priority go first in their queue, and may displace running ones of a lower priority that save checkpoints. Of a submitter at most the queue's `submitter_priority`, 0 unless the operator says otherwise ([scheduling.md](scheduling.md))."},
      {"placement", T::kGroup, "", "", "", "", "Which nodes may be used; all that is given must hold."},
      {"placement.labels", T::kLabels, "", "none", "", "{kind: new}", "Labels that a node must have."},
      {"placement.nodes", T::kTexts, "", "none", "", "[node-1, node-2]", "Names of the only nodes that may be used."},
      {"placement.exclude_nodes", T::kTexts, "", "none", "", "[node-3]", "Names of nodes that are not used."},
      {"placement.tolerate", T::kTexts, "", "none", "each KEY or KEY=VALUE", "[team=vision]",
       "Taints (labels taint.KEY) that do not matter; a node with another one is not used."},
      {"placement.same", T::kText, "", "none", "", "rack", "A label of which all ranks' nodes must have the same value."},
      {"placement.ranks_per_node", T::kInteger, "", "as many as fit", "1 to 4096; divides ranks", "8",
       "Each node that the job gets runs exactly so many of its ranks, with consecutive numbers. Not with recovery.max_failures, whose replacements come to any node.", true},

      {"command", T::kTexts, "", "none", "1 to 256 texts", "[python3, train.py, --width, \"512\"]",
       "The program of each rank and its arguments, in the place of model, data, optimizer and what else says how to train ([own-script.md](own-script.md)). The first is looked up in PATH, or is a path from working_directory."},
      {"working_directory", T::kPath, "", "the job file's folder", "", "/home/ann/net", "Where the command starts; every node has to have it. Only with command."},
      {"environment", T::kLabels, "", "none", "names of letters, digits and _; not what Paceline sets, such as RANK", "{HF_HOME: /data/hf}",
       "Variables of the command's environment, over those that the worker passes on. Only with command."},
      {"venv", T::kPath, "", "none", "", "/home/ann/net/.venv",
       "Folder of a virtual environment, or conda's, whose bin comes first in PATH. Only with command."},
      {"stop_grace_s", T::kNumber, "s", "10", "more than 0", "60",
       "What a command has from SIGTERM to SIGKILL when its job is stopped. Only with command.", true},
      {"watch", T::kBool, "", "true", "", "false",
       "Measure the steps of a Python command that uses PyTorch ([own-script.md](own-script.md)). Only with command."},
      {"code", T::kGroup, "", "", "", "",
       "Files that travel with the job, in the place of working_directory; `submit --ship` and `run --ship` send them and set this. Only with command."},
      {"code.sha256", T::kText, "", "required", "64 of 0-9 and a-f",
       "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "Hash of their bytes. Only with command."},
      {"code.bytes", T::kInteger, "bytes", "required", "1 to 33554432", "1", "How many bytes they are. Only with command."},
      {"code.files", T::kInteger, "", "0", "0 to 20000", "1", "How many files they are. Only with command."},

      {"model", T::kGroup, "", "", "", "", "What is trained."},
      {"model.kind", T::kChoice, "", "required", "resnet18, mlp, llama, torchscript", "resnet18",
       "The architecture; channels and classes of images come from the data."},
      {"model.sync_batchnorm", T::kBool, "", "false", "", "true",
       "Normalise over the batches of all ranks instead of each rank's own. Only with kind resnet18."},
      {"model.hidden", T::kIntegers, "", "[128]", "each 1 to 2147483647", "[64, 64]",
       "Widths of the hidden layers. Only with kind mlp."},
      {"model.preset", T::kChoice, "", "debug", "debug, 160m, 1b, 8b", "160m",
       "Sizes of those keys below that are left out. Only with kind llama."},
      {"model.dim", T::kInteger, "", "that of the preset", "1 to 2147483647, a multiple of heads", "128",
       "Width of the residual stream. Only with kind llama.", true},
      {"model.layers", T::kInteger, "", "that of the preset", "1 to 2147483647", "4",
       "Transformer blocks. Only with kind llama.", true},
      {"model.heads", T::kInteger, "", "that of the preset", "1 to 2147483647; dim / heads is even", "4",
       "Query heads. Only with kind llama.", true},
      {"model.kv_heads", T::kInteger, "", "that of the preset", "1 to 2147483647, a divisor of heads", "2",
       "Key and value heads. Only with kind llama.", true},
      {"model.ffn_dim", T::kInteger, "", "that of the preset", "1 to 2147483647", "384",
       "Width of the feed-forward network. Only with kind llama.", true},
      {"model.vocab_size", T::kInteger, "", "that of the preset", "1 to 2147483647", "256",
       "Token ids are below it. Only with kind llama.", true},
      {"model.rope_theta", T::kNumber, "", "that of the preset", "more than 0", "1e4",
       "Base of the rotary embedding's wavelengths. Only with kind llama.", true},
      {"model.norm_epsilon", T::kNumber, "", "1e-5", "more than 0", "1e-6",
       "Added to the mean square in RMSNorm. Only with kind llama.", true},
      {"model.tie_embeddings", T::kBool, "", "that of the preset", "", "true",
       "The output projection is the token embedding. Only with kind llama."},
      {"model.checkpoint_activations", T::kBool, "", "false", "", "true",
       "Compute a block's activations again in the backward pass instead of keeping them. Only with kind llama."},
      {"model.file", T::kPath, "", "required with kind torchscript", "", "model.pt",
       "File of the scripted module, readable on every node. Only with kind torchscript."},
      {"model.unused_parameters", T::kBool, "", "false", "", "true",
       "A step may leave parameters out, as a branch that is not always taken does. Only with kind torchscript."},

      {"data", T::kGroup, "", "", "", "", "What it is trained on."},
      {"data.train", T::kPath, "", "required", "", "digits-train.shard",
       "File with the training samples, images or tokens, readable on every node."},
      {"data.eval", T::kPath, "", "none", "", "digits-test.shard",
       "File with the evaluation samples, of the same kind; without it nothing is evaluated."},
      {"data.order", T::kChoice, "", "shuffle", "shuffle, sequential", "shuffle",
       "Order within an epoch: a new permutation for each, or the file's."},
      {"data.sequence_length", T::kInteger, "tokens", "256", "1 to 2147483647", "128",
       "Tokens per sample of a token file.", true},
      {"data.token_type", T::kChoice, "", "none", "uint16, uint32", "uint16",
       "Type of the tokens in a token file that has no header; without it the file has one."},
      {"data.prefetch_threads", T::kInteger, "", "1", "0 to 64", "2",
       "Threads of each rank that fetch batches ahead; 0 is the training thread itself."},
      {"data.prefetch_batches", T::kInteger, "batches", "2", "1 and more", "4", "Batches fetched ahead.", true},

      {"batch_per_rank", T::kInteger, "samples", "32", "1 and more", "32", "Samples per rank and forward pass.", true},
      {"accumulation_steps", T::kInteger, "", "1", "1 and more", "4",
       "Forward and backward passes per optimizer step, whose gradients are averaged.", true},
      {"steps", T::kInteger, "steps", "required", "1 and more", "400", "Number of optimizer steps. With command it is only told, and need not be given.", true},

      {"optimizer", T::kGroup, "", "", "", "", "How weights are updated."},
      {"optimizer.kind", T::kChoice, "", "required", "sgd, adamw", "sgd", "The update rule."},
      {"optimizer.learning_rate", T::kNumber, "", "required", "more than 0", "0.1", "Peak learning rate.", true},
      {"optimizer.weight_decay", T::kNumber, "", "0", "0 and more", "5e-4",
       "Decay of the weights, coupled in sgd, decoupled in adamw."},
      {"optimizer.momentum", T::kNumber, "", "0", "0 <= x < 1", "0.9", "Momentum. Only with kind sgd."},
      {"optimizer.nesterov", T::kBool, "", "false", "needs momentum above 0", "true",
       "Nesterov's form of the momentum. Only with kind sgd."},
      {"optimizer.beta1", T::kNumber, "", "0.9", "0 <= x < 1", "0.9",
       "Decay rate of the first moment. Only with kind adamw."},
      {"optimizer.beta2", T::kNumber, "", "0.999", "0 <= x < 1", "0.95",
       "Decay rate of the second moment. Only with kind adamw."},
      {"optimizer.epsilon", T::kNumber, "", "1e-8", "more than 0", "1e-6",
       "Added to the denominator. Only with kind adamw."},
      {"clip_grad_norm", T::kNumber, "", "0", "0 and more", "1.0",
       "Gradients are scaled down to this global L2 norm; 0 is never."},
      {"on_nonfinite", T::kChoice, "", "stop", "stop, skip, ignore", "skip",
       "What a loss or gradient that is NaN or infinite does: fail the job, leave the step out, nothing."},

      {"schedule", T::kGroup, "", "", "", "", "Learning rate over the steps."},
      {"schedule.kind", T::kChoice, "", "constant", "constant, cosine, step", "cosine",
       "After the warm-up: the peak, half a cosine down from it, or a reduction every so many steps."},
      {"schedule.warmup_steps", T::kInteger, "steps", "0", "0 and more, less than steps", "20",
       "Steps over which the learning rate rises linearly from 0."},
      {"schedule.final_ratio", T::kNumber, "", "0", "0 to 1", "0.01",
       "Learning rate at the last step as a share of the peak. Only with kind cosine."},
      {"schedule.steps", T::kInteger, "steps", "those of the job", "more than warmup_steps", "1000",
       "Steps after which the cosine is at its end, and stays. Only with kind cosine.", true},
      {"schedule.every", T::kInteger, "steps", "required with kind step", "1 and more", "100",
       "Steps between two reductions. Only with kind step.", true},
      {"schedule.gamma", T::kNumber, "", "0.1", "0 < x <= 1", "0.5", "Factor of each reduction. Only with kind step."},

      {"seed", T::kInteger, "", "0", "0 and more", "1", "Seed of the initial weights and of the data order."},
      {"precision", T::kChoice, "", "fp32", "fp32, bf16", "fp32",
       "Number format of the forward and backward pass; weights stay fp32."},

      {"strategy", T::kGroup, "", "", "", "", "How ranks are kept together."},
      {"strategy.kind", T::kChoice, "", "ddp", "ddp, local_sgd, hsgd, slipstream, auto", "hsgd",
       "Mean of all gradients at every step, of all parameters every so many steps, of parameters by a ladder, or of what each rank has done by then (docs/slipstream.md); auto begins as ddp, and the controller changes to slipstream and back as stalls are measured (docs/stragglers.md)."},
      {"strategy.warmup_steps", T::kInteger, "steps", "0, or 50 with kind auto", "0 and more; not with kind ddp and slipstream", "20",
       "Steps with the mean of all ranks' gradients before the first mean of parameters; of auto, before the first change."},
      {"strategy.gradient_group_size", T::kInteger, "ranks", "0", "0, or a divisor of ranks; not with kind ddp and auto", "2",
       "Ranks whose gradients are averaged at every step: after the warm-up, where 0 is those of a node and 1 none; with slipstream in modes free and pause, where 0 and 1 are none."},
      {"strategy.optimizer_state", T::kChoice, "", "local", "local, average", "average",
       "Momentum and moments when parameters are averaged: each rank's own, or averaged too. Not with kind ddp and auto; average with slipstream in mode pause only."},
      {"strategy.period", T::kInteger, "steps", "required with kind local_sgd", "1 and more", "8",
       "Steps between two means, counted from the end of the warm-up. Only with kind local_sgd.", true},
      {"strategy.ladder", T::kGroups, "", "none", "", "",
       "Levels from the smallest group to all ranks; none: the mean of all gradients at every step, until the ladder is changed. Only with kind hsgd."},
      {"strategy.ladder[].period", T::kInteger, "steps", "required",
       "1 and more; above the period before it and a multiple of it", "8",
       "Parameters are averaged after the steps, counted from 0, that it divides.", true},
      {"strategy.ladder[].size", T::kInteger, "ranks", "required without level",
       "a divisor of ranks; above the size before it and a multiple of it; ranks in the last level", "4",
       "Ranks per group: consecutive ones.", true},
      {"strategy.ladder[].level", T::kChoice, "", "required without size", "node, rack, all", "all",
       "Groups by topology: the ranks of a node, of the nodes with the same label rack, all. The last level has all."},
      {"strategy.ladder[].format", T::kChoice, "", "fp32", "fp32, fp16, bf16, int8", "fp32",
       "Number format in which parameters travel: fp32, or int8 above the first level."},
      {"strategy.mode", T::kChoice, "", "drop with optimizer adamw, free with sgd", "sync, drop, free, pause", "free",
       "Mean of all gradients at each step; of those that are there in time; of updates that each rank makes by itself; the same, but all stop for each round. paceline job mode changes it. Only with kind slipstream."},
      {"strategy.window", T::kGroup, "", "", "", "",
       "Bounds of the window in modes free and pause; within them it follows what rounds and copies take. Only with kind slipstream."},
      {"strategy.window.min_steps", T::kInteger, "steps", "1", "1 to 2147483647", "2",
       "From one round to the next, at least.", true},
      {"strategy.window.max_steps", T::kInteger, "steps", "64, or min_steps if that is more", "min_steps to 2147483647", "16",
       "From one round to the next, at most.", true},
      {"strategy.window.max_cap", T::kInteger, "steps", "4 times max_steps", "max_steps to 2147483647", "64",
       "So far a rank may be ahead of the last finished round, at most.", true},
      {"gradient_format", T::kChoice, "", "fp32", "fp32, fp16, bf16, int8", "bf16",
       "Number format in which gradients travel; int8 is of updates only, in modes free and pause of slipstream."},

      {"evaluation", T::kGroup, "", "", "", "", "Evaluation on data.eval, at the end in any case."},
      {"evaluation.every", T::kInteger, "steps", "0", "0 and more; above 0 needs data.eval", "50",
       "Evaluate every so many steps too; 0 is at the end only."},

      {"checkpoint", T::kGroup, "", "", "", "", "Where and when the state of the training is saved."},
      {"checkpoint.directory", T::kPath, "", "none", "", "/srv/checkpoints",
       "Directory that every node can write. Checkpoints go to JOB_ID/ in it, and at the end the weights to "
       "JOB_ID/final.safetensors. The other keys of the group need it."},
      {"checkpoint.every_steps", T::kInteger, "steps", "0", "0 and more", "500",
       "Save every so many steps; 0 is not by steps. Where ranks differ in between, at the next step after which they are equal."},
      {"checkpoint.every_s", T::kNumber, "s", "0", "0 and more", "600", "Save every so many seconds; 0 is not by time."},
      {"checkpoint.auto_interval", T::kBool, "", "false", "not with every_s", "true",
       "Save as often as loses the least time, judged by what a save costs and how often ranks fail."},
      {"checkpoint.keep_latest", T::kInteger, "", "3", "0 and more", "5",
       "So many of the newest checkpoints are kept; 0 is all."},
      {"checkpoint.keep_every", T::kInteger, "steps", "0", "0 and more", "10000",
       "Checkpoints whose step this divides are kept for ever; 0 is none."},
      {"checkpoint.at_end", T::kBool, "", "true with every_steps, every_s or auto_interval", "", "true",
       "Save after the last step."},
      {"checkpoint.when_busy", T::kChoice, "", "skip", "skip, wait", "wait",
       "What happens to a save while the two before it are still being written: it is left out, or training waits."},
      {"checkpoint.write_limit_mb_s", T::kNumber, "MB/s", "0", "0 and more", "200",
       "Megabytes (10^6 bytes) per second that each rank writes at most; 0 is no limit."},
      {"checkpoint.on_damage", T::kChoice, "", "stop", "stop, previous", "previous",
       "When the newest checkpoint turns out to be damaged at a restart: the job fails, or starts from the one before."},

      {"max_restarts", T::kInteger, "", "0", "0 and more", "3",
       "How often the job starts again by itself after a rank failed, from its newest checkpoint or else from the start."},
      {"recovery", T::kGroup, "", "", "", "", "Lost ranks are replaced while the others keep their state."},
      {"recovery.max_failures", T::kInteger, "", "0, or 3 with strategy auto", "0 and more", "10",
       "So many ranks may be lost within window_s; with one more the job starts again (max_restarts) or has failed. 0: a lost rank ends the training at once. The other keys of the group need it."},
      {"recovery.window_s", T::kNumber, "s", "3600", "more than 0", "7200", "Failures count for so long.", true},
      {"recovery.spares", T::kInteger, "", "0", "0 and more", "1",
       "Trainers that stand by with model and data loaded, each on a place of its own."},
      {"recovery.min_ranks", T::kInteger, "", "ranks", "1 to ranks", "2",
       "So many ranks go on when lost ones cannot be replaced at once; the job grows again when places are free.", true},
      {"recovery.batch", T::kChoice, "", "keep_global_batch", "keep_global_batch, keep_rank_batch", "keep_rank_batch",
       "With fewer ranks: the same samples per step, by smaller batches and more passes, where that is possible; or the same per rank."},
      {"resume_from", T::kText, "", "none", "not with init_from", "digits-resnet18/400",
       "Checkpoint to go on from: JOB for a job's newest one, JOB/STEP, or a directory, which begins with a slash."},

      {"init_from", T::kPath, "", "none", "", "resnet18.safetensors",
       "Initial weights that every node can read: a .safetensors or .pt file, a directory in Hugging Face's layout, or a checkpoint's; without it they come from the seed."},
      {"save_nan", T::kBool, "", "false", "", "true",
       "Save and export state also where values are NaN, instead of failing with the tensor's name."},
      {"export_final", T::kPath, "", "none", "a name that ends in .safetensors", "final.safetensors",
       "Where each rank R writes its weights at the end: final.rankR.safetensors in the example."},
      {"log_every", T::kInteger, "steps", "10", "1 and more", "20",
       "A log line with step and loss is written every so many steps.", true},
      {"collective_timeout_s", T::kNumber, "s", "300, or 30 with recovery.max_failures", "more than 0", "60",
       "Longest time that a collective may take after the first two steps.", true},
      {"startup_timeout_s", T::kNumber, "s", "the larger of 600 and 3 times collective_timeout_s",
       "3 times collective_timeout_s and more", "900",
       "Longest time for the ranks to meet and for a collective of the first two steps.", true},
      {"stall_warning_s", T::kNumber, "s", "half of hang_timeout_s, or 100 with command", "more than 0, below hang_timeout_s", "20",
       "A rank that has made no step for so long is told of.", true},
      {"hang_timeout_s", T::kNumber, "s", "two thirds of collective_timeout_s",
       "above stall_warning_s, below collective_timeout_s", "40",
       "A rank that has made no step for so long, while others wait for it, counts as hung and is replaced; needs recovery.max_failures.", true},
      {"give_up_s", T::kNumber, "s", "the larger of 600 and 3 times collective_timeout_s",
       "above collective_timeout_s and the controller's --node-lease", "1200",
       "Longest time that ranks wait for lost ones to be replaced, before the job starts again or has failed.", true},
      {"peak_flops", T::kNumber, "1/s", "0", "0 and more", "1e15",
       "Floating-point operations that a device can do at most; 0 is those of a GPU that is known, else no MFU is told."},
      {"cuda_graph", T::kBool, "", "false",
       "true needs device cuda, ranks 1, model llama or mlp, accumulation_steps 1", "true",
       "Replay each step as one CUDA graph."},

      {"stragglers", T::kGroup, "", "", "", "", "What is done about ranks that are slow (docs/stragglers.md)."},
      {"stragglers.mode", T::kChoice, "", "advise", "off, advise, auto", "auto",
       "Nobody looks for them; they are told of, with a remedy that a person may have taken (paceline job advise); the remedy is taken. With command not auto, and by default off unless it is watched."},

      {"allow_chaos", T::kBool, "", "false", "", "true", "The job may be disturbed as chaos says."},
      {"chaos", T::kGroups, "", "none", "needs allow_chaos", "", "Disturbances on purpose, for drills and tests."},
      {"chaos[].rank", T::kInteger, "", "0", "-1 to ranks - 1", "1", "The rank that fails, counted from 0; -1 is every rank."},
      {"chaos[].step", T::kInteger, "steps", "0", "0 to steps - 1", "50",
       "The step before which it happens, counted from 0."},
      {"chaos[].kind", T::kChoice, "", "required", "throw, abort, exit, out_of_memory, sleep, nan_loss, slow, loader_stall, communication_delay, memory_growth, freeze, flip_bit",
       "throw",
       "What happens: an exception, abort(), exit code 42, an allocation of 2^60 bytes, a pause in the forward pass, a loss that is NaN, passes that take factor times as long, a wait for data, gradients that are late, memory that is taken and kept, SIGSTOP, a bit of the rank's model that changes (strategy slipstream)."},
      {"chaos[].seconds", T::kNumber, "s", "0", "0 and more", "30", "How long a sleep, loader_stall or communication_delay lasts."},
      {"chaos[].steps", T::kInteger, "steps", "1", "1 and more", "100",
       "Number of steps, from step on, before which it happens.", true},
      {"chaos[].probability", T::kNumber, "", "1", "0 < x <= 1", "0.02",
       "Share of these steps, drawn from the seed for each rank and step."},
      {"chaos[].generation", T::kInteger, "", "0", "0 and more", "1",
       "Only in this start of the job, counted from 1; 0 is in all."},
      {"chaos[].node", T::kText, "", "none", "", "dev-2", "Only on the node of this name; none is on all."},
      {"chaos[].factor", T::kNumber, "", "0", "1 and more for slow", "1.5", "By which a slow rank's passes take longer."},
      {"chaos[].megabytes", T::kNumber, "MB", "0", "0 and more", "10", "What memory_growth takes at each step."},
      {"chaos[].until_file", T::kPath, "", "none", "", "/tmp/over", "Only until this file is there, on the rank's node."},
  };
  // clang-format on
  return *keys;
}

const JobKey* FindJobKey(absl::string_view path) {
  const std::string plain = WithoutIndices(path);
  for (const JobKey& key : JobKeys()) {
    if (plain == key.path) return &key;
  }
  return nullptr;
}

std::vector<std::string> KeysBelow(absl::string_view group) {
  const std::string prefix = group.empty() ? "" : absl::StrCat(WithoutIndices(group), ".");
  std::vector<std::string> keys;
  for (const JobKey& key : JobKeys()) {
    absl::string_view rest = key.path;
    if (!absl::ConsumePrefix(&rest, prefix)) continue;
    if (!absl::StrContains(rest, '.')) keys.emplace_back(rest);
  }
  return keys;
}

const char* TypeName(KeyType type) {
  switch (type) {
    case KeyType::kGroup:
      return "group of keys";
    case KeyType::kGroups:
      return "list of groups";
    case KeyType::kText:
      return "text";
    case KeyType::kTexts:
      return "list of texts";
    case KeyType::kLabels:
      return "labels with values";
    case KeyType::kPath:
      return "path";
    case KeyType::kInteger:
      return "whole number";
    case KeyType::kIntegers:
      return "list of whole numbers";
    case KeyType::kNumber:
      return "number";
    case KeyType::kBool:
      return "true or false";
    case KeyType::kChoice:
      return "choice";
  }
  return "";
}

}  // namespace paceline
