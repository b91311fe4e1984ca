#include "worker/daemon/trainers/job_codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/event_loop.h"
#include "common/job_spec/code_files.h"
#include "common/job_spec/job_spec.h"
#include "common/tls/key_and_request.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kPart = 7;
const absl::Time kNow = absl::UnixEpoch();
const Generation kFirst(1);

class JobCodesTest : public ::testing::Test {
 protected:
  JobCodesTest() {
    v1::CodeFile file;
    file.set_path("train.py");
    file.set_data("print()");
    AppendCodeFile(file, &bytes_);
    code_.set_sha256(Sha256Hex(bytes_));
    code_.set_bytes(static_cast<int64_t>(bytes_.size()));
  }
  ~JobCodesTest() override { fs::remove_all(paths_.state_dir); }

  static NodePaths NewPaths() {
    std::string made = absl::StrCat(::testing::TempDir(), "/codes-XXXXXX");
    const NodePaths paths{::mkdtemp(made.data()), ""};
    fs::create_directory(paths.TrainersDir());
    return paths;
  }
  v1::CodeData Answer(const v1::CodeRequest& request) const {
    v1::CodeData data;
    data.set_job(request.job());
    data.set_sha256(request.sha256());
    data.set_offset(request.offset());
    data.set_data(bytes_.substr(static_cast<size_t>(request.offset()), kPart));
    return data;
  }
  // Answers all requests until the job's code is there or has failed. Call once per test.
  absl::Status FetchAll(JobCodes& codes) {
    while (const std::optional<v1::CodeRequest> request = codes.NextRequest()) {
      codes.OnData(Answer(*request));
    }
    is_unpacking_ = absl::IsUnavailable(codes.Look(job_));
    if (is_unpacking_) loop_.Run();
    return codes.Look(job_);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(paths_.TrainersDir())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  const NodePaths paths_ = NewPaths();
  const JobId job_{"job-0123456789ab"};
  std::string bytes_;
  v1::Code code_;
  EventLoop loop_;
  bool is_unpacking_ = false;
  SideThreads threads_{loop_};
  JobCodes codes_{paths_, JobUser(), threads_, [this](const JobId&) {
                    if (is_unpacking_) loop_.Stop();
                  }};
};

TEST_F(JobCodesTest, FetchesInPartsAndUnpacksOnce) {
  codes_.Want(job_, kFirst, code_, kNow);
  EXPECT_TRUE(absl::IsUnavailable(codes_.Look(job_)));
  const auto first = codes_.NextRequest();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->offset(), 0);
  EXPECT_FALSE(codes_.NextRequest().has_value()) << "one is under way";
  codes_.OnData(Answer(*first));
  const auto second = codes_.NextRequest();
  EXPECT_EQ(second->offset(), static_cast<int64_t>(kPart));
  codes_.OnData(Answer(*second));
  ASSERT_TRUE(FetchAll(codes_).ok()) << codes_.Look(job_);
  EXPECT_TRUE(fs::exists(paths_.CodeDir(job_) + "/train.py"));
  codes_.Want(job_, Generation(2), code_, kNow);
  EXPECT_FALSE(codes_.NextRequest().has_value());
  EXPECT_TRUE(codes_.Look(job_).ok());
}

TEST_F(JobCodesTest, ALostSessionGoesOnWhereItWas) {
  codes_.Want(job_, kFirst, code_, kNow);
  codes_.OnData(Answer(*codes_.NextRequest()));
  const auto lost = codes_.NextRequest();
  codes_.OnLost();
  const auto again = codes_.NextRequest();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->offset(), lost->offset());
  codes_.OnData(Answer(*again));
  EXPECT_TRUE(FetchAll(codes_).ok());
}

TEST_F(JobCodesTest, WhyItCannotBeHadIsSaidAndTheNextGenerationTriesAgain) {
  codes_.Want(job_, kFirst, code_, kNow);
  v1::CodeData error = Answer(*codes_.NextRequest());
  error.clear_data();
  error.set_error("the controller does not have it any more");
  codes_.OnData(error);
  EXPECT_THAT(std::string(codes_.Look(job_).message()), HasSubstr("does not have it any more"));
  codes_.Want(job_, kFirst, code_, kNow);
  EXPECT_FALSE(codes_.NextRequest().has_value());
  codes_.Want(job_, Generation(2), code_, kNow);
  EXPECT_TRUE(absl::IsUnavailable(codes_.Look(job_)));
  EXPECT_TRUE(FetchAll(codes_).ok());
}

TEST_F(JobCodesTest, OtherBytesThanWereAskedForAreRefused) {
  const auto problem = [&](auto change) {
    JobCodes codes(paths_, JobUser(), threads_, [](const JobId&) {});
    codes.Want(job_, kFirst, code_, kNow);
    v1::CodeData data = Answer(*codes.NextRequest());
    change(data);
    codes.OnData(data);
    return std::string(codes.Look(job_).message());
  };
  EXPECT_THAT(problem([](auto& data) { data.set_offset(1); }), HasSubstr("another part"));
  EXPECT_THAT(problem([](auto& data) { data.clear_data(); }), HasSubstr("another part"));
  EXPECT_THAT(problem([&](auto& data) { data.set_data(bytes_ + "x"); }), HasSubstr("another part"));
  bytes_[0] ^= 1;
  codes_.Want(job_, kFirst, code_, kNow);
  EXPECT_THAT(std::string(FetchAll(codes_).message()), HasSubstr("not what its hash says"));
  EXPECT_FALSE(fs::exists(paths_.CodeDir(job_)));
  v1::Code large = code_;
  large.set_bytes(kMaxCodeBytes + 1);
  codes_.Want(JobId("job-b"), kFirst, large, kNow);
  EXPECT_THAT(std::string(codes_.Look(JobId("job-b")).message()), HasSubstr("allowed are"));
}

TEST_F(JobCodesTest, ADaemonLeavesOnlyWhatRanksRunIn) {
  const std::string half = paths_.CodeDir(JobId("job-half")) + ".new";
  for (const std::string& dir : {paths_.CodeDir(job_), paths_.CodeDir(JobId("job-gone")), half}) {
    fs::create_directory(dir);
  }
  codes_.Start({job_}, kNow);
  EXPECT_TRUE(codes_.Look(job_).ok());
  EXPECT_TRUE(fs::exists(paths_.CodeDir(job_)));
  EXPECT_FALSE(fs::exists(paths_.CodeDir(JobId("job-gone"))));
  EXPECT_FALSE(fs::exists(half));
  codes_.Want(job_, Generation(2), code_, kNow);
  EXPECT_FALSE(codes_.NextRequest().has_value());
}

TEST_F(JobCodesTest, TheFolderGoesSomeTimeAfterTheLastRank) {
  codes_.Want(job_, kFirst, code_, kNow);
  ASSERT_TRUE(FetchAll(codes_).ok());
  EXPECT_FALSE(codes_.RemoveUnused({job_}, kNow + absl::Hours(1)));
  EXPECT_FALSE(codes_.RemoveUnused({}, kNow + absl::Hours(1) + CodeUse::kKept));
  EXPECT_TRUE(fs::exists(paths_.CodeDir(job_)));
  EXPECT_TRUE(
      codes_.RemoveUnused({}, kNow + absl::Hours(1) + CodeUse::kKept + absl::Nanoseconds(1)));
  EXPECT_FALSE(fs::exists(paths_.CodeDir(job_)));
  EXPECT_THAT(codes_.NextRequest().has_value(), false);
}

}  // namespace
}  // namespace paceline
