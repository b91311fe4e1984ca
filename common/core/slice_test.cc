#include "common/core/slice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

namespace paceline {
namespace {

using Shape = std::vector<int64_t>;

// Element numbers of a whole tensor, row-major, that are in the box, in the order of the box.
std::vector<int64_t> Numbers(const Box& box, const Shape& shape) {
  std::vector<int64_t> numbers = {0};
  for (size_t i = 0; i < shape.size(); ++i) {
    std::vector<int64_t> longer;
    for (int64_t number : numbers) {
      for (int64_t at = 0; at < box.sizes[i]; ++at) {
        longer.push_back(number * shape[i] + box.offsets[i] + at);
      }
    }
    numbers = longer;
  }
  return numbers;
}

// Whether each element is in one box, by counting.
bool CoversByCounting(const Shape& shape, const std::vector<Box>& boxes) {
  std::vector<int> times(static_cast<size_t>(ElementsOf(shape)), 0);
  for (const Box& box : boxes) {
    for (int64_t number : Numbers(box, shape)) ++times[static_cast<size_t>(number)];
  }
  return std::all_of(times.begin(), times.end(), [](int count) { return count == 1; });
}

Shape RandomShape(std::mt19937& random) {
  Shape shape(1 + random() % 3);
  for (int64_t& extent : shape) extent = 1 + static_cast<int64_t>(random() % 6);
  return shape;
}

Box RandomBox(const Shape& shape, std::mt19937& random) {
  Box box;
  for (int64_t extent : shape) {
    box.offsets.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(extent)));
    const auto room = static_cast<uint64_t>(extent - box.offsets.back());
    box.sizes.push_back(1 + static_cast<int64_t>(random() % room));
  }
  return box;
}

// Cuts a box in two, again and again.
std::vector<Box> RandomCuts(const Shape& shape, std::mt19937& random) {
  std::vector<Box> boxes = {WholeBox(shape)};
  for (int cuts = static_cast<int>(random() % 8); cuts > 0; --cuts) {
    const size_t chosen = random() % boxes.size();
    const size_t dimension = random() % shape.size();
    if (boxes[chosen].sizes[dimension] < 2) continue;
    Box second = boxes[chosen];
    const auto first_size =
        1 + static_cast<int64_t>(random() % static_cast<uint64_t>(second.sizes[dimension] - 1));
    boxes[chosen].sizes[dimension] = first_size;
    second.offsets[dimension] += first_size;
    second.sizes[dimension] -= first_size;
    boxes.push_back(second);
  }
  return boxes;
}

TEST(SliceTest, ABoxIsWithinATensorOfItsDimensions) {
  EXPECT_TRUE(IsWithin({{1, 2}, {3, 4}}, {4, 6}));
  EXPECT_FALSE(IsWithin({{1, 3}, {3, 4}}, {4, 6}));
  EXPECT_FALSE(IsWithin({{-1, 0}, {1, 1}}, {4, 6}));
  EXPECT_FALSE(IsWithin({{0, 0}, {-1, 1}}, {4, 6}));
  EXPECT_FALSE(IsWithin({{0}, {1}}, {4, 6}));
  EXPECT_FALSE(IsWithin({{INT64_MAX}, {INT64_MAX}}, {4}));
  EXPECT_TRUE(IsWithin({{4}, {0}}, {4}));
  EXPECT_TRUE(IsWithin({}, {}));
}

TEST(SliceTest, ARowRangeIsCutAlongTheFirstDimensionAlone) {
  EXPECT_TRUE(IsRowRange({{1, 0}, {2, 6}}, {4, 6}));
  EXPECT_FALSE(IsRowRange({{0, 1}, {4, 5}}, {4, 6}));
  EXPECT_TRUE(IsRowRange({{3}, {1}}, {4}));
  EXPECT_TRUE(IsRowRange({}, {}));
}

TEST(SliceTest, ScalarsAreInEachOther) {
  ASSERT_TRUE(Intersection({}, {}).has_value());
  RunWalk walk({}, {}, {});
  EXPECT_EQ(walk.elements(), 1);
  EXPECT_FALSE(walk.done());
  walk.Advance();
  EXPECT_TRUE(walk.done());
}

TEST(SliceTest, RunsAreTheSameElementsOnBothSides) {
  for (unsigned round = 0; round < 2000; ++round) {
    std::mt19937 random(round);
    const Shape shape = RandomShape(random);
    const Box source = RandomBox(shape, random);
    const Box target = RandomBox(shape, random);
    const std::vector<int64_t> in_source = Numbers(source, shape);
    const std::vector<int64_t> in_target = Numbers(target, shape);
    std::vector<int64_t> expected;
    for (int64_t number : in_source) {
      if (std::count(in_target.begin(), in_target.end(), number) > 0) expected.push_back(number);
    }
    std::vector<int64_t> walked;
    if (const std::optional<Box> part = Intersection(source, target)) {
      for (RunWalk walk(*part, source, target); !walk.done(); walk.Advance()) {
        for (int64_t i = 0; i < walk.elements(); ++i) {
          const int64_t number = in_source.at(static_cast<size_t>(walk.from() + i));
          ASSERT_EQ(in_target.at(static_cast<size_t>(walk.to() + i)), number) << round;
          walked.push_back(number);
        }
      }
    }
    ASSERT_EQ(walked, expected) << round;
  }
}

TEST(SliceTest, WholeRowsAreOneRun) {
  const RunWalk walk({{2, 0}, {3, 6}}, {{1, 0}, {8, 6}}, {{2, 0}, {5, 6}});
  EXPECT_EQ(walk.elements(), 18);
  EXPECT_EQ(walk.from(), 6);
  EXPECT_EQ(walk.to(), 0);
}

TEST(SliceTest, CuttingATensorCoversIt) {
  for (unsigned round = 0; round < 2000; ++round) {
    std::mt19937 random(round);
    const Shape shape = RandomShape(random);
    const std::vector<Box> boxes = RandomCuts(shape, random);
    ASSERT_EQ(WhyNotCovered(shape, boxes), std::nullopt) << round;
  }
}

// Boxes of cuts, of which one is changed, given twice, or left out.
TEST(SliceTest, CoverageIsThatOfCounting) {
  int wrong = 0;
  for (unsigned round = 0; round < 4000; ++round) {
    std::mt19937 random(round);
    const Shape shape = RandomShape(random);
    std::vector<Box> boxes = RandomCuts(shape, random);
    const size_t chosen = random() % boxes.size();
    switch (random() % 4) {
      case 0:
        boxes[chosen] = RandomBox(shape, random);
        break;
      case 1:
        boxes.push_back(boxes[chosen]);
        break;
      case 2:
        boxes.erase(boxes.begin() + static_cast<std::ptrdiff_t>(chosen));
        break;
      default:
        boxes.push_back(RandomBox(shape, random));
        boxes.erase(boxes.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
    const bool covers = CoversByCounting(shape, boxes);
    wrong += covers ? 0 : 1;
    ASSERT_EQ(!WhyNotCovered(shape, boxes).has_value(), covers) << round;
  }
  EXPECT_GT(wrong, 2000);
}

TEST(SliceTest, TheFirstElementThatIsWrongIsNamed) {
  const Box left{{0, 0}, {4, 3}};
  EXPECT_EQ(WhyNotCovered({4, 6}, {left, {{0, 4}, {4, 2}}}),
            "none of its slices has element [0, 3]");
  EXPECT_EQ(WhyNotCovered({4, 6}, {left, {{0, 2}, {4, 4}}}), "2 of its slices have element [0, 2]");
  EXPECT_EQ(WhyNotCovered({4, 6}, {left, {{0, 3}, {3, 3}}}),
            "none of its slices has element [3, 3]");
  EXPECT_EQ(WhyNotCovered({4, 6}, {}), "none of its slices has element [0, 0]");
}

// As many elements as the tensor has, so a sum of sizes would not find it.
TEST(SliceTest, AGapAndAnOverlapOfEqualSizeAreFound) {
  EXPECT_TRUE(WhyNotCovered({2, 2}, {{{0, 0}, {2, 1}}, {{0, 0}, {1, 2}}}).has_value());
}

TEST(SliceTest, HugeTensorsAreNoTrouble) {
  const int64_t rows = int64_t{1} << 40;
  const int64_t columns = int64_t{1} << 20;
  EXPECT_EQ(WhyNotCovered({rows, columns}, {{{0, 0}, {rows, 1}}, {{0, 1}, {rows, columns - 1}}}),
            std::nullopt);
  EXPECT_EQ(WhyNotCovered({rows, columns},
                          {{{0, 0}, {rows, columns - 1}}, {{0, columns - 1}, {rows - 1, 1}}}),
            "none of its slices has element [1099511627775, 1048575]");
}

TEST(SliceTest, TooManyCutDimensionsAreRefused) {
  const Shape shape(5, 2);
  std::vector<Box> boxes;
  for (int64_t corner = 0; corner < 32; ++corner) {
    Box box;
    for (int dimension = 0; dimension < 5; ++dimension) {
      box.offsets.push_back((corner >> dimension) & 1);
      box.sizes.push_back(1);
    }
    boxes.push_back(box);
  }
  EXPECT_EQ(WhyNotCovered(shape, boxes),
            "its slices cut it along 5 dimensions, of which at most 4 are allowed");
}

}  // namespace
}  // namespace paceline
