#include "worker/trainer/data/batch_loader.h"

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSamples = 1000;

// In this data set, sample i is the number i.
class NumberDataset : public Dataset {
 public:
  const std::string& path() const override { return path_; }
  SampleFormat format() const override { return {}; }
  int64_t size() const override { return kSamples; }

  Batch Allocate(int64_t samples, bool /*pinned*/) const override {
    Batch batch;
    batch.inputs = at::empty({samples}, at::kLong);
    batch.targets = at::empty({samples}, at::kLong);
    return batch;
  }

  absl::Status ReadRows(absl::Span<const int64_t> indices, int64_t row,
                        Batch* batch) const override {
    ++reads;
    for (int64_t index : indices) {
      if (index == missing) return absl::DataLossError(absl::StrCat("sample ", index));
      if (index == throws) throw std::runtime_error("thrown");
    }
    if (before_read) before_read(indices);
    std::copy(indices.begin(), indices.end(), batch->inputs.mutable_data_ptr<int64_t>() + row);
    return absl::OkStatus();
  }

  bool is_remote() const override { return static_cast<bool>(expect); }
  bool Expect(absl::Span<const int64_t> indices) const override { return expect(indices); }

  int64_t missing = -1;
  int64_t throws = -1;
  std::function<bool(absl::Span<const int64_t>)> expect;  // Null: it is not remote.
  std::function<void(absl::Span<const int64_t>)> before_read;
  mutable std::atomic<int> reads{0};

 private:
  const std::string path_ = "numbers";
};

BatchLoader::Options Options(int threads, int batches_ahead = 3) {
  BatchLoader::Options options;
  options.sampler.samples = kSamples;
  options.sampler.batch = 16;
  options.sampler.rank = 1;
  options.sampler.world_size = 2;
  options.sampler.seed = 3;
  options.threads = threads;
  options.batches_ahead = batches_ahead;
  return options;
}

std::vector<int64_t> Numbers(const Batch& batch) {
  const auto* data = batch.inputs.const_data_ptr<int64_t>();
  return {data, data + batch.samples};
}

// Checks that the loader's next batch is the sampler's next one.
void ExpectSame(BatchLoader& loader, Sampler& sampler) {
  const absl::StatusOr<Batch> batch = loader.Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  std::vector<int64_t> expected;
  sampler.Next(&expected);
  ASSERT_EQ(Numbers(*batch), expected);
  ASSERT_EQ(loader.position(), sampler.position());
}

void WaitForReads(const NumberDataset& dataset, int reads) {
  while (dataset.reads < reads) absl::SleepFor(absl::Milliseconds(1));
}

TEST(BatchLoaderTest, BatchesComeInTheOrderOfTheSamplerHoweverManyThreadsReadThem) {
  const NumberDataset dataset;
  for (int threads : {0, 1, 2, 5}) {
    for (int ahead : {1, 4}) {
      BatchLoader loader(dataset, Options(threads, ahead));
      Sampler sampler(Options(threads).sampler);
      for (int i = 0; i < 300; ++i) ExpectSame(loader, sampler);  // Almost ten epochs.
    }
  }
}

// Three full passes, then one in which the first rank has the only sample.
TEST(BatchLoaderTest, WithoutDropLastTheLastBatchOfAnEpochIsSmallerOrEmpty) {
  const NumberDataset dataset;
  for (int threads : {0, 2}) {
    for (int rank : {0, 1, 2}) {
      BatchLoader::Options options = Options(threads);
      options.sampler.batch = 111;
      options.sampler.rank = rank;
      options.sampler.world_size = 3;
      options.sampler.drop_last = false;
      BatchLoader loader(dataset, options);
      EXPECT_EQ(loader.together(), 0);
      Sampler sampler(options.sampler);
      for (int i = 0; i < 12; ++i) {
        ExpectSame(loader, sampler);
        EXPECT_EQ(loader.together(), i % 4 == 3 ? 1 : 333);
      }
      EXPECT_EQ(loader.position(), (DataPosition{2, 1000}));
    }
  }
}

TEST(BatchLoaderTest, ASlowThreadIsWaitedForInItsTurn) {
  NumberDataset dataset;
  BatchLoader::Options options = Options(4);
  options.sampler.shuffle = false;
  dataset.before_read = [](absl::Span<const int64_t> indices) {
    if (indices[0] / 32 % 3 == 0) absl::SleepFor(absl::Milliseconds(3));
  };
  BatchLoader loader(dataset, options);
  Sampler sampler(options.sampler);
  for (int i = 0; i < 60; ++i) ExpectSame(loader, sampler);
}

TEST(BatchLoaderTest, FetchesNoFurtherAheadThanItMay) {
  const NumberDataset dataset;
  BatchLoader loader(dataset, Options(/*threads=*/4, /*batches_ahead=*/3));
  WaitForReads(dataset, 4);  // As many as can be in use and ahead.
  ASSERT_TRUE(loader.Next().ok());
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_EQ(dataset.reads, 4);
  ASSERT_TRUE(loader.Next().ok());
  WaitForReads(dataset, 5);
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_EQ(dataset.reads, 5);
}

TEST(BatchLoaderTest, ABatchKeepsItsValuesUntilTheNextCall) {
  const NumberDataset dataset;
  BatchLoader loader(dataset, Options(/*threads=*/2, /*batches_ahead=*/1));
  Sampler sampler(Options(2).sampler);
  std::vector<int64_t> expected;
  for (int i = 0; i < 10; ++i) {
    const Batch batch = *loader.Next();
    sampler.Next(&expected);
    WaitForReads(dataset, i + 2);  // All that may be fetched ahead was fetched.
    absl::SleepFor(absl::Milliseconds(2));
    EXPECT_EQ(Numbers(batch), expected);
  }
}

TEST(BatchLoaderTest, MemoryIsUsedAgain) {
  const NumberDataset dataset;
  for (int threads : {0, 2}) {
    BatchLoader loader(dataset, Options(threads, /*batches_ahead=*/2));
    std::set<const void*> addresses;
    for (int i = 0; i < 100; ++i) addresses.insert(loader.Next()->inputs.const_data_ptr());
    EXPECT_EQ(addresses.size(), threads == 0 ? 1u : 3u);
  }
}

TEST(BatchLoaderTest, GoesOnFromAPositionWhateverWasFetchedAhead) {
  const NumberDataset dataset;
  for (int cut = 0; cut < 70; cut += 7) {
    BatchLoader first(dataset, Options(/*threads=*/3, /*batches_ahead=*/5));
    Sampler sampler(Options(3).sampler);
    for (int i = 0; i < cut; ++i) ExpectSame(first, sampler);
    BatchLoader::Options rest = Options(/*threads=*/2);
    rest.start = first.position();
    BatchLoader second(dataset, rest);
    EXPECT_EQ(second.position(), first.position());
    for (int i = 0; i < 50; ++i) ExpectSame(second, sampler);
  }
}

// One of two ranks takes part of an epoch; three ranks with another batch size take the rest.
TEST(BatchLoaderTest, OtherRanksTakeTheRestOfTheEpoch) {
  const NumberDataset dataset;
  std::map<int64_t, int> taken;
  const auto take = [&taken](BatchLoader& loader) {
    for (int64_t number : Numbers(*loader.Next())) ++taken[number];
  };
  DataPosition position;
  for (int rank = 0; rank < 2; ++rank) {
    BatchLoader::Options options = Options(/*threads=*/1);
    options.sampler.rank = rank;
    BatchLoader loader(dataset, options);
    for (int i = 0; i < 10; ++i) take(loader);
    position = loader.position();
  }
  EXPECT_EQ(position, (DataPosition{0, 320}));
  for (int rank = 0; rank < 3; ++rank) {
    BatchLoader::Options options = Options(/*threads=*/1);
    options.sampler.rank = rank;
    options.sampler.world_size = 3;
    options.sampler.batch = 4;
    options.start = position;
    BatchLoader loader(dataset, options);
    for (int i = 0; i < 56; ++i) take(loader);
    EXPECT_EQ(loader.position(), (DataPosition{0, 992}));
  }
  EXPECT_EQ(taken.size(), 992u);
  for (const auto& [number, times] : taken) EXPECT_EQ(times, 1) << number;
}

TEST(BatchLoaderTest, AnErrorComesInItsTurnAndStays) {
  for (int threads : {0, 3}) {
    NumberDataset dataset;
    BatchLoader::Options options = Options(threads);
    options.sampler.shuffle = false;
    dataset.missing = 5 * 32 + 1;
    BatchLoader loader(dataset, options);
    Sampler sampler(options.sampler);
    for (int i = 0; i < 5; ++i) ExpectSame(loader, sampler);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(loader.Next().status(), absl::DataLossError("sample 161"));
      EXPECT_EQ(loader.position(), (DataPosition{0, 160}));
    }
  }
}

TEST(BatchLoaderTest, AnExceptionOfAThreadIsThrownByNext) {
  for (int threads : {0, 3}) {
    NumberDataset dataset;
    BatchLoader::Options options = Options(threads);
    options.sampler.shuffle = false;
    dataset.throws = 2 * 32 + 1;
    BatchLoader loader(dataset, options);
    EXPECT_TRUE(loader.Next().ok());
    EXPECT_TRUE(loader.Next().ok());
    EXPECT_THROW(loader.Next().IgnoreError(), std::runtime_error);
  }
}

TEST(BatchLoaderTest, AThreadThatCannotBeStartedIsAnErrorThatSaysWhatToDo) {
  const NumberDataset dataset;
  for (const int most : {0, 2}) {
    int left = most;
    BatchLoader::Options options = Options(/*threads=*/4);
    options.start_thread = [&left](std::function<void()> run) {
      if (left-- <= 0) throw std::system_error(EAGAIN, std::system_category());
      return std::thread(std::move(run));
    };
    BatchLoader loader(dataset, options);
    for (int call = 0; call < 2; ++call) {
      const absl::Status status = loader.Next().status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("only ", most, " of the 4 threads that read numbers")));
      EXPECT_THAT(std::string(status.message()), HasSubstr("--limit-processes"));
    }
  }
}

TEST(BatchLoaderTest, TooLittleMemoryToLookAheadIsNoError) {
  NumberDataset dataset;
  dataset.expect = [](absl::Span<const int64_t>) -> bool { throw std::bad_alloc(); };
  for (int threads : {0, 2}) {
    BatchLoader loader(dataset, Options(threads));
    Sampler sampler(Options(threads).sampler);
    for (int i = 0; i < 50; ++i) ExpectSame(loader, sampler);
  }
}

TEST(BatchLoaderTest, EndsWhileThreadsReadAndWait) {
  for (int taken : {0, 1, 2, 7}) {
    NumberDataset dataset;
    dataset.before_read = [](absl::Span<const int64_t>) { absl::SleepFor(absl::Milliseconds(1)); };
    BatchLoader loader(dataset, Options(/*threads=*/4, /*batches_ahead=*/2));
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(loader.Next().ok());
  }
}

// As of a store that is away.
TEST(BatchLoaderTest, ItsEndInterruptsReadsThatWait) {
  ReadInterrupt interrupt;
  NumberDataset dataset;
  dataset.before_read = [&interrupt](absl::Span<const int64_t>) {
    while (!interrupt.is_set()) absl::SleepFor(absl::Milliseconds(1));
  };
  BatchLoader::Options options = Options(/*threads=*/3);
  options.interrupt = &interrupt;
  {
    BatchLoader loader(dataset, options);
    WaitForReads(dataset, 3);
    EXPECT_FALSE(interrupt.is_set());
  }
  EXPECT_FALSE(interrupt.is_set());
}

TEST(BatchLoaderTest, WaitsForASlowReader) {
  NumberDataset dataset;
  absl::Notification may_read;
  dataset.before_read = [&may_read](absl::Span<const int64_t>) { may_read.WaitForNotification(); };
  BatchLoader loader(dataset, Options(/*threads=*/2));
  std::thread reader([&may_read] {
    absl::SleepFor(absl::Milliseconds(20));
    may_read.Notify();
  });
  Sampler sampler(Options(2).sampler);
  ExpectSame(loader, sampler);
  reader.join();
}

}  // namespace
}  // namespace paceline
