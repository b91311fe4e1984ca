#include "worker/daemon/trainers/asked_collectives.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

constexpr char kAnswer[] = R"({"wanted": 7, "rank": 1, "groups": [
    {"name": "0", "description": "default_pg", "ranks": [0, 1], "last": 4, "newest": true,
     "collectives": [{"number": 4, "operation": "all_reduce", "input": "float32 [7, 3]",
                      "finished": false}]}]})";

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

class AskedCollectivesTest : public ::testing::Test {
 protected:
  AskedCollectivesTest() : dir_(::testing::TempDir() + "/asked_collectives_test.XXXXXX") {
    EXPECT_NE(::mkdtemp(dir_.data()), nullptr);
  }
  ~AskedCollectivesTest() override {
    if (reader_ >= 0) ::close(reader_);
    fs::remove_all(dir_);
  }

  std::string Path(const std::string& name) const { return absl::StrCat(dir_, "/", name); }

  // The rank waits for a question.
  void Wait() {
    ASSERT_EQ(::mkfifo(Path("collectives.ask").c_str(), 0600), 0);
    reader_ = ::open(Path("collectives.ask").c_str(), O_RDONLY | O_NONBLOCK);
  }
  std::string Heard() const {
    char text[64] = {};
    const ssize_t size = ::read(reader_, text, sizeof(text));
    return size > 0 ? std::string(text, static_cast<size_t>(size)) : "";
  }
  void Write(const std::string& text) const { std::ofstream(Path("collectives")) << text; }

  // Asks a rank that gives the answer at once; returns why it was refused.
  std::string WhyRefused(AskedCollectives& asked) const {
    EXPECT_TRUE(asked.Poll(7, 1, At(0)));
    EXPECT_FALSE(asked.waits());
    EXPECT_EQ(asked.reported()->wanted(), 7);
    EXPECT_TRUE(asked.reported()->groups().empty());
    return asked.reported()->unavailable();
  }

  std::string dir_;
  int reader_ = -1;
};

TEST_F(AskedCollectivesTest, RankIsAskedOnceAndItsAnswerTaken) {
  Wait();
  Write(R"({"wanted": 6, "rank": 1})");  // An answer from another time.
  AskedCollectives asked(dir_);
  EXPECT_FALSE(asked.Poll(7, 1, At(0)));
  EXPECT_TRUE(asked.waits());
  EXPECT_EQ(Heard(), "7\n");
  EXPECT_FALSE(asked.Poll(7, 1, At(0.1)));
  EXPECT_EQ(Heard(), "");
  Write(kAnswer);
  EXPECT_TRUE(asked.Poll(7, 1, At(0.2)));
  EXPECT_FALSE(asked.waits());
  ASSERT_EQ(asked.reported()->groups_size(), 1);
  EXPECT_EQ(asked.reported()->groups(0).collectives(0).input(), "float32 [7, 3]");
  EXPECT_FALSE(asked.Poll(7, 1, At(9))) << "nothing new";
  EXPECT_TRUE(asked.Poll(0, 1, At(10))) << "it is not wanted any more";
  EXPECT_FALSE(asked.reported().has_value());
}

TEST_F(AskedCollectivesTest, RankWithoutAProcessGroupHasNone) {
  AskedCollectives asked(dir_);
  EXPECT_EQ(WhyRefused(asked), "");
}

TEST_F(AskedCollectivesTest, WhoDoesNotAnswerInTimeIsTold) {
  ASSERT_EQ(::mkfifo(Path("collectives.ask").c_str(), 0600), 0);
  AskedCollectives unread(dir_);
  EXPECT_FALSE(unread.Poll(7, 1, At(0)));
  EXPECT_FALSE(unread.Poll(7, 1, At(2.9)));
  EXPECT_TRUE(unread.Poll(7, 1, At(3)));
  EXPECT_EQ(unread.reported()->unavailable(), "no process of the rank waits to be asked");
  fs::remove(Path("collectives.ask"));
  Wait();
  AskedCollectives unanswered(dir_);
  EXPECT_FALSE(unanswered.Poll(7, 1, At(0)));
  EXPECT_TRUE(unanswered.Poll(7, 1, At(3)));
  EXPECT_EQ(unanswered.reported()->unavailable(), "its Python has not answered within 3s");
}

// The job owns the directory, so it may contain anything.
TEST_F(AskedCollectivesTest, HostileAnswersAreRefused) {
  Wait();
  const auto why = [&] {
    AskedCollectives asked(dir_);
    return WhyRefused(asked);
  };
  Write("{\"wanted\": 7, \"rank\"");
  EXPECT_THAT(why(), HasSubstr("/collectives: it is not what is expected"));
  for (const char* wrong :
       {"[]", "7", "{\"wanted\": \"many\"}", "{\"wanted\": 7, \"groups\": 5}",
        "{\"wanted\": 7, \"groups\": [{\"ranks\": [\"a\"]}]}",
        "{\"wanted\": 7, \"groups\": [{\"collectives\": [{\"number\": 1e300}]}]}",
        "{\"wanted\": 7, \"others\": 1}"}) {
    Write(wrong);
    EXPECT_THAT(why(), HasSubstr("it is not what is expected")) << wrong;
  }
  Write(std::string(100'000, '['));
  EXPECT_THAT(why(), HasSubstr("it is not what is expected"));
  Write(std::string(AskedCollectives::kMostBytes + 1, ' '));
  EXPECT_THAT(why(), HasSubstr("and no more than"));
  Write(absl::StrCat("{\"wanted\": 7, \"rank\": 1, \"groups\": [{\"name\": \"",
                     std::string(100'000, 'x'), "\"}]}"));
  EXPECT_THAT(why(), HasSubstr("more than 32768 bytes of collectives"));
  fs::remove(Path("collectives"));
  fs::create_symlink("/etc/passwd", Path("collectives"));
  EXPECT_THAT(why(), HasSubstr("is a link, or no regular file"));
  fs::remove(Path("collectives"));
  ASSERT_EQ(::mkfifo(Path("collectives").c_str(), 0600), 0);
  EXPECT_THAT(why(), HasSubstr("is a link, or no regular file"));
}

TEST_F(AskedCollectivesTest, PipeThatIsNoneIsRefused) {
  std::ofstream(Path("collectives.ask")) << "kept";
  AskedCollectives asked(dir_);
  EXPECT_THAT(WhyRefused(asked), HasSubstr("is a link, or no named pipe"));
}

// The script started a process that has ranks of its own.
TEST_F(AskedCollectivesTest, ProcessOfAnotherRankIsNotTakenForThisOne) {
  Wait();
  Write(kAnswer);
  AskedCollectives asked(dir_);
  EXPECT_TRUE(asked.Poll(7, 0, At(0)));
  EXPECT_EQ(asked.reported()->unavailable(), "torch numbers a process of it rank 1, not 0");
  EXPECT_TRUE(asked.reported()->groups().empty());
}

TEST_F(AskedCollectivesTest, WhatIsLeftAtTheEndCounts) {
  AskedCollectives asked(dir_);
  asked.TakeLeft(1);
  EXPECT_FALSE(asked.reported().has_value());
  Write(kAnswer);
  asked.TakeLeft(1);
  EXPECT_FALSE(asked.reported().has_value()) << "an answer of some other time";
  Write(R"({"wanted": 0, "rank": 1, "groups": [{"name": "0", "last": 3}]})");
  asked.TakeLeft(1);
  ASSERT_TRUE(asked.reported().has_value());
  EXPECT_EQ(asked.reported()->groups(0).last(), 3);
}

}  // namespace
}  // namespace paceline
