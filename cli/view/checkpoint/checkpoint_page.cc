#include "cli/view/checkpoint/checkpoint_page.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cli/text/sanitize.h"
#include "cli/text/table.h"
#include "cli/view/checkpoint/checkpoint_text.h"
#include "cli/view/job/job_page.h"
#include "cli/view/job/job_text.h"
#include "cli/view/numbers.h"

namespace paceline {
namespace {

struct Group {
  int64_t tensors = 0;
  int64_t bytes = 0;
};

// Groups tensors by the first part of their names; "rank2" comes before "rank10".
std::map<std::pair<int, std::string>, Group> GroupsOf(const Manifest& manifest) {
  std::map<std::pair<int, std::string>, Group> groups;
  for (const ManifestTensor& tensor : manifest.tensors) {
    const std::string name = tensor.name.substr(0, tensor.name.find('/'));
    int rank = 0;
    absl::string_view digits = name;
    if (!absl::ConsumePrefix(&digits, "rank") || !absl::SimpleAtoi(digits, &rank)) rank = 0;
    Group& group = groups[{rank, name}];
    ++group.tensors;
    group.bytes += TensorBytes(tensor);
  }
  return groups;
}

std::string GroupTable(const Manifest& manifest, const PageStyle& style) {
  Table table({{"GROUP"}, {"TENSORS", true}, {"SIZE", true}});
  for (const auto& [key, group] : GroupsOf(manifest)) {
    table.Add({key.second, absl::StrCat(group.tensors), BytesText(group.bytes)});
  }
  return table.Rendered(style.width, style.colours);
}

std::string FileTable(const Manifest& manifest, const PageStyle& style) {
  Table table({{"FILE"}, {"SIZE", true}});
  for (const ManifestFile& file : manifest.files) table.Add({file.name, BytesText(file.bytes)});
  return table.Rendered(style.width, style.colours);
}

void AddFromController(std::string* page, const v1::Checkpoint& checkpoint, absl::Time now,
                       const PageStyle& style) {
  AddLine(page, "Name", CheckpointNameText(checkpoint));
  AddLine(page, "Job",
          absl::StrCat(SanitizeLine(checkpoint.job_name()), " (", SanitizeLine(checkpoint.job_id()),
                       ")"));
  AddLine(page, "State",
          Painted(StateText(checkpoint.state()), StateColour(checkpoint.state()), style.colours));
  AddLine(page, "Reason", SanitizeLine(checkpoint.reason()));
  AddLine(page, "Step", absl::StrCat(checkpoint.step()));
  AddLine(page, "Generation", absl::StrCat(checkpoint.generation()));
  AddLine(page, "Ranks", absl::StrCat(checkpoint.ranks()));
  AddLine(page, "Saved",
          MomentText(TimeOf(checkpoint.has_create_time(), checkpoint.create_time()), now));
  AddLine(page, "Size", BytesText(checkpoint.bytes()));
  AddLine(page, "Pinned", checkpoint.pinned() ? "yes" : "no");
}

int64_t FileBytes(const Manifest& manifest) {
  int64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

// Adds facts that the controller would also give, for when it was not asked.
void AddIdentity(std::string* page, const Manifest& manifest, absl::Time now) {
  AddLine(page, "Job", SanitizeLine(manifest.job_id));
  AddLine(page, "Step", absl::StrCat(manifest.step));
  AddLine(page, "Generation", absl::StrCat(manifest.generation));
  AddLine(page, "Ranks", absl::StrCat(manifest.ranks));
  AddLine(page, "Saved", MomentText(absl::FromUnixSeconds(manifest.created), now));
  AddLine(page, "Size", BytesText(FileBytes(manifest)));
}

void AddFromManifest(std::string* page, const Manifest& manifest) {
  AddLine(page, "Ladder", manifest.ladder.empty() ? "none" : SanitizeLine(manifest.ladder));
  AddLine(page, "Plan", absl::StrCat("version ", manifest.plan_epoch));
  AddLine(page, "Data",
          absl::StrCat("epoch ", manifest.data_epoch, ", offset ", manifest.data_offset));
  AddLine(page, "Versions",
          absl::StrCat("format ", manifest.version, ", paceline ",
                       SanitizeLine(manifest.paceline_version), ", torch ",
                       SanitizeLine(manifest.torch_version)));
}

}  // namespace

std::string CheckpointPage(const CheckpointFacts& facts, absl::Time now, const PageStyle& style) {
  std::string page;
  if (facts.checkpoint.has_value()) {
    AddFromController(&page, *facts.checkpoint, now, style);
  } else if (facts.manifest.has_value()) {
    AddIdentity(&page, *facts.manifest, now);
  }
  AddLine(&page, "Directory", SanitizeLine(facts.directory));
  if (!facts.manifest.has_value()) return page;
  AddFromManifest(&page, *facts.manifest);
  absl::StrAppend(&page, "\nTensors:\n", GroupTable(*facts.manifest, style));
  absl::StrAppend(&page, "\nFiles:\n", FileTable(*facts.manifest, style));
  if (facts.spec.has_value()) {
    absl::StrAppend(&page, "\n", JobFileText(*facts.spec, style));
  }
  return page;
}

std::string TensorTable(const Manifest& manifest, const PageStyle& style) {
  Table table({{"TENSOR"}, {"DTYPE"}, {"SHAPE"}, {"SIZE", true}, {"FILES"}});
  for (const ManifestTensor& tensor : manifest.tensors) {
    std::vector<std::string> files;
    for (const TensorSlice& slice : tensor.slices) files.push_back(slice.file);
    table.Add({tensor.name, tensor.dtype, absl::StrCat("[", absl::StrJoin(tensor.shape, ", "), "]"),
               BytesText(TensorBytes(tensor)), absl::StrJoin(files, ", ")});
  }
  return table.Rendered(style.width, style.colours, style.headings);
}

}  // namespace paceline
