#include "worker/trainer/testing/trainer_test.h"

#include <google/protobuf/text_format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "worker/trainer/testing/patterns.h"

namespace paceline {

void TrainerTest::SetUp() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  directory_ = absl::StrCat(testing::TempDir(), "/", info->name());
  std::filesystem::remove_all(directory_);
  std::filesystem::create_directories(directory_);
  WritePatterns(directory_ + "/train.shard", 200, 2);
  WritePatterns(directory_ + "/eval.shard", 61, 3);
}

v1::JobSpec TrainerTest::Spec(int ranks, const std::string& changes) const {
  v1::JobSpec spec;
  const std::string text = absl::StrCat(
      "name: 'test' ranks: ", ranks, " model { mlp { hidden: 32 } } data { train: '", directory_,
      "/train.shard' } batch_per_rank: 4 steps: 20 log_every: 1 optimizer { sgd { momentum: 0.9 } "
      "learning_rate: 0.05 } seed: 3");
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  v1::JobSpec more;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(changes, &more)) << changes;
  spec.MergeFrom(more);
  return spec;
}

std::string TrainerTest::Evaluated(int every) const {
  return absl::StrCat("evaluation { every: ", every, " } data { eval: '", directory_,
                      "/eval.shard' } ");
}

std::string TrainerTest::ExportTo(const std::string& name) const {
  return absl::StrCat("export_final: '", directory_, "/", name, ".safetensors' ");
}

std::string TrainerTest::ExportedFile(const std::string& name, int rank) const {
  return absl::StrCat(directory_, "/", name, ".rank", rank, ".safetensors");
}

std::string TrainerTest::Exported(const std::string& name, int rank) const {
  std::ostringstream bytes;
  std::ifstream file(ExportedFile(name, rank), std::ios::binary);
  EXPECT_TRUE(file.good()) << ExportedFile(name, rank);
  bytes << file.rdbuf();
  return bytes.str();
}

void TrainerTest::ExpectEqualModels(const std::string& name, int ranks) const {
  for (int rank = 1; rank < ranks; ++rank) {
    EXPECT_TRUE(Exported(name, rank) == Exported(name, 0)) << "rank " << rank;
  }
}

std::unique_ptr<FakeDaemon> TrainerTest::MakeDaemon(std::vector<std::string> extra_args) {
  FakeDaemon::Options options;
  options.trainer = trainer_;
  options.server = server_;
  options.variables = variables_;
  options.object_stores = object_stores_;
  options.directory = absl::StrCat(directory_, "/daemon", daemons_++);
  options.extra_args = std::move(extra_args);
  std::filesystem::create_directories(options.directory);
  return std::make_unique<FakeDaemon>(options);
}

std::unique_ptr<FakeDaemon> TrainerTest::RunJob(const v1::JobSpec& spec) {
  std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
  daemon->Launch(spec);
  EXPECT_TRUE(daemon->Serve());
  for (int rank = 0; rank < spec.ranks(); ++rank) {
    EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
  }
  return daemon;
}

std::vector<double> TrainerTest::Values(const FakeDaemon& daemon, int rank,
                                        const std::string& key) {
  std::vector<double> values;
  std::istringstream words(daemon.Log(rank));
  std::string word;
  while (words >> word) {
    const std::string prefix = key + "=";
    absl::string_view number = word;
    if (!absl::ConsumePrefix(&number, prefix)) continue;
    EXPECT_TRUE(absl::SimpleAtod(number, &values.emplace_back())) << word;
  }
  return values;
}

}  // namespace paceline
