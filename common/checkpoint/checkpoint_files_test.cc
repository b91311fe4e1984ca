#include "common/checkpoint/checkpoint_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checksum.h"
#include "common/checkpoint/testing/written_checkpoint.h"
#include "common/safetensors/safetensors.h"

namespace paceline {
namespace {

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void ExpectDamage(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text << " of: " << status;
  EXPECT_TRUE(absl::StrContains(status.message(), text)) << text << " of: " << status;
}

class CheckpointFilesTest : public testing::Test {
 protected:
  CheckpointFilesTest() {
    std::filesystem::remove_all(directory_);
    const absl::StatusOr<Manifest> manifest = WriteExampleCheckpoint(directory_, 120, 2);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    manifest_ = *manifest;
  }

  // Writes manifest_ again after a change.
  void WriteManifest() { Write(manifest_path_, FormatManifest(manifest_)); }

  // The slice of a tensor with this index.
  const TensorSlice& SliceOf(const std::string& tensor, size_t index) {
    for (const ManifestTensor& found : manifest_.tensors) {
      if (found.name == tensor) return found.slices[index];
    }
    ADD_FAILURE() << tensor;
    return manifest_.tensors[0].slices[0];
  }

  void Flip(const std::string& path, int64_t offset) {
    std::string bytes = Read(path);
    bytes[static_cast<size_t>(offset)] = static_cast<char>(bytes[static_cast<size_t>(offset)] ^ 4);
    Write(path, bytes);
  }

  absl::Status OpenStatus() { return CheckpointFiles::Open(directory_).status(); }

  const std::string directory_ = testing::TempDir() + "/step-000000000120.g2";
  const std::string manifest_path_ = directory_ + "/" + kManifestName;
  const std::string shard0_ = directory_ + "/" + ShardName(0, 2);
  const std::string shard1_ = directory_ + "/" + ShardName(1, 2);
  Manifest manifest_;
};

TEST_F(CheckpointFilesTest, ShowsTheBytesOfEachSlice) {
  const absl::StatusOr<CheckpointFiles> files = CheckpointFiles::Open(directory_);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->directory(), directory_);
  EXPECT_EQ(files->manifest().step, 120);
  EXPECT_EQ(files->Find("model/none"), nullptr);
  EXPECT_EQ(files->Find("z"), nullptr);
  const ManifestTensor* weight = files->Find("model/fc.weight");
  ASSERT_NE(weight, nullptr);
  ASSERT_EQ(weight->slices.size(), 2u);
  std::string bytes;
  for (const TensorSlice& slice : weight->slices) {
    bytes += std::string(files->Bytes(slice));
    EXPECT_TRUE(files->Verify(*weight, slice).ok());
  }
  ASSERT_EQ(bytes.size(), 120u);
  for (size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], static_cast<char>(i));
  EXPECT_EQ(files->PathOf(weight->slices[1]), shard1_);
  EXPECT_EQ(files->Bytes(weight->slices[1]).size(), 72u);
}

TEST_F(CheckpointFilesTest, WithoutAManifestThereIsNone) {
  std::filesystem::remove(manifest_path_);
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kNotFound) << OpenStatus();
  EXPECT_TRUE(absl::StrContains(OpenStatus().message(), directory_));
  std::filesystem::remove_all(directory_);
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(VerifyCheckpoint(directory_, [](int64_t, int64_t) {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CheckpointFilesTest, ADamagedManifestIsNamed) {
  Flip(manifest_path_, 200);
  ExpectDamage(OpenStatus(), manifest_path_ + ": offset 0: damaged");
  ExpectDamage(VerifyCheckpoint(directory_, [](int64_t, int64_t) {}).status(), manifest_path_);
  Write(manifest_path_, "");
  ExpectDamage(OpenStatus(), manifest_path_);
}

TEST_F(CheckpointFilesTest, ANewerManifestIsRefusedAsSuch) {
  manifest_.version = kManifestVersion + 1;
  WriteManifest();
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kUnimplemented) << OpenStatus();
  EXPECT_TRUE(absl::StrContains(OpenStatus().message(), manifest_path_)) << OpenStatus();
}

TEST_F(CheckpointFilesTest, AManifestWithHolesIsRefused) {
  ASSERT_EQ(manifest_.tensors[1].name, "model/fc.weight");
  manifest_.tensors[1].slices.pop_back();
  WriteManifest();
  ExpectDamage(OpenStatus(), "model/fc.weight\": 1 slices with 2 rows, of 5");
}

TEST_F(CheckpointFilesTest, AShardThatIsMissingOrOfAnotherSizeIsNamed) {
  const std::string bytes = Read(shard1_);
  std::filesystem::remove(shard1_);
  ExpectDamage(OpenStatus(), shard1_ + ": missing");
  std::filesystem::create_directory(shard1_);
  ExpectDamage(OpenStatus(), shard1_ + " is no regular file");
  std::filesystem::remove(shard1_);
  Write(shard1_, "");
  ExpectDamage(OpenStatus(), shard1_ + ": at offset 0: truncated");
  Write(shard1_, bytes.substr(0, bytes.size() - 1));
  ExpectDamage(OpenStatus(),
               absl::StrCat(shard1_, ": ", bytes.size() - 1, " bytes instead of ", bytes.size()));
  Write(shard1_, bytes);
  EXPECT_TRUE(OpenStatus().ok()) << OpenStatus();
}

TEST_F(CheckpointFilesTest, AHeaderThatContradictsTheManifestIsNamed) {
  const Manifest whole = manifest_;
  const auto expect = [&](const std::string& text, const std::function<void(Manifest&)>& change) {
    manifest_ = whole;
    change(manifest_);
    WriteManifest();
    ExpectDamage(OpenStatus(), text);
  };
  ManifestTensor* no_tensor = nullptr;
  const auto tensor = [&](Manifest& manifest, const std::string& name) -> ManifestTensor& {
    for (ManifestTensor& found : manifest.tensors) {
      if (found.name == name) return found;
    }
    return *no_tensor;
  };
  expect("contradicts manifest.json at tensor \"model/fc.weight\"",
         [&](Manifest& manifest) { tensor(manifest, "model/fc.weight").slices[1].offset -= 4; });
  expect("contradicts",
         [&](Manifest& manifest) { tensor(manifest, "model/fc.weight").dtype = "I32"; });
  expect("contradicts", [&](Manifest& manifest) {
    tensor(manifest, "model/fc.weight").shape = {5, 2, 3};
  });
  expect("contradicts",
         [&](Manifest& manifest) { tensor(manifest, "model/batches").name = "model/batchez"; });
  expect("its header has",
         [&](Manifest& manifest) { manifest.tensors.erase(manifest.tensors.begin()); });
  Write(shard0_, std::string(Read(shard0_).size(), 'x'));
  expect(shard0_ + ": offset 0: not a safetensors file", [](Manifest&) {});
}

TEST_F(CheckpointFilesTest, AFlippedBitIsNamedWithTensorRowsAndOffsets) {
  const TensorSlice& slice = SliceOf("model/fc.weight", 1);
  Flip(shard1_, slice.offset + 7);
  const absl::StatusOr<CheckpointFiles> files = CheckpointFiles::Open(directory_);
  ASSERT_TRUE(files.ok()) << files.status();
  const ManifestTensor* weight = files->Find("model/fc.weight");
  EXPECT_TRUE(files->Verify(*weight, weight->slices[0]).ok());
  ExpectDamage(files->Verify(*weight, weight->slices[1]),
               absl::StrCat(shard1_,
                            ": damaged: tensor \"model/fc.weight\", rows from 2 to 5, "
                            "offsets from ",
                            slice.offset, " to ", slice.offset + 72));
  EXPECT_TRUE(files->VerifyChecksum(*weight, weight->slices[1], slice.checksum).ok());
  ExpectDamage(files->VerifyChecksum(*weight, weight->slices[1], slice.checksum + 1),
               ChecksumText(slice.checksum + 1));
}

TEST_F(CheckpointFilesTest, VerifyTellsItsProgressAndEveryDamage) {
  std::vector<int64_t> progress;
  const auto on_progress = [&](int64_t done, int64_t all) {
    EXPECT_EQ(all, 120 + 8 + 6);
    progress.push_back(done);
  };
  absl::StatusOr<std::vector<std::string>> damages = VerifyCheckpoint(directory_, on_progress);
  ASSERT_TRUE(damages.ok()) << damages.status();
  EXPECT_TRUE(damages->empty()) << damages->front();
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  ASSERT_GE(progress.size(), 5u);
  EXPECT_EQ(progress.back(), 134);

  Flip(shard1_, SliceOf("model/fc.weight", 1).offset);
  Flip(shard1_, SliceOf("optimizer/momentum/fc.bias", 1).offset);
  damages = VerifyCheckpoint(directory_, on_progress);
  ASSERT_TRUE(damages.ok()) << damages.status();
  ASSERT_EQ(damages->size(), 2u);
  EXPECT_TRUE(absl::StrContains((*damages)[0], "model/fc.weight")) << (*damages)[0];
  EXPECT_TRUE(absl::StrContains((*damages)[1], "fc.bias\", rows from 1 to 3")) << (*damages)[1];

  std::filesystem::remove(shard0_);
  damages = VerifyCheckpoint(directory_, on_progress);
  ASSERT_TRUE(damages.ok()) << damages.status();
  ASSERT_EQ(damages->size(), 3u);
  EXPECT_EQ((*damages)[0], shard0_ + ": missing");
  EXPECT_EQ(progress.back(), 134);
}

TEST_F(CheckpointFilesTest, DataIsNotReadWhenItIsOpened) {
  // After the header the file is a hole of 256 GiB, too much to read.
  const int64_t bytes = int64_t{1} << 38;
  const std::string path = directory_ + "/large.safetensors";
  const std::string header = SafetensorsHeader({{"model/large", "U8", {bytes}, ""}}, 64).value();
  Write(path, header);
  const auto offset = static_cast<int64_t>(header.size());
  if (::truncate(path.c_str(), offset + bytes) != 0) GTEST_SKIP() << "no files of this size here";
  manifest_.files = {{"large.safetensors", offset + bytes}};
  manifest_.tensors = {
      {"model/large", "U8", {bytes}, {{"large.safetensors", 0, bytes, offset, bytes, 0}}}};
  WriteManifest();
  const absl::StatusOr<CheckpointFiles> files = CheckpointFiles::Open(directory_);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->Bytes(files->Find("model/large")->slices[0]).size(), static_cast<size_t>(bytes));
}

}  // namespace
}  // namespace paceline
