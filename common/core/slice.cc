#include "common/core/slice.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paceline {
namespace {

// The dimensions in which not all boxes are whole.
std::vector<size_t> CutDimensions(const std::vector<int64_t>& shape,
                                  const std::vector<Box>& boxes) {
  std::vector<size_t> cut;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (std::any_of(boxes.begin(), boxes.end(),
                    [&](const Box& box) { return box.sizes[i] != shape[i]; })) {
      cut.push_back(i);
    }
  }
  return cut;
}

// A corner of a box, in the dimensions that are cut, and what it adds to the sum below.
struct Corner {
  std::array<int64_t, kMaxCutDimensions> place = {};
  int64_t value = 0;
};

// How often elements are covered, as a sum over corners: an element is in as many boxes as the
// values of all corners add up to that are before or at it in each dimension. Half of a box's
// corners count 1 and the others -1, where it ends.
class CornerSum {
 public:
  // Requires: at most kMaxCutDimensions. `boxes`: how many will be added.
  CornerSum(std::vector<size_t> cut, size_t boxes) : cut_(std::move(cut)) {
    corners_.reserve(boxes << cut_.size());
  }

  // `sign`: 1 adds the box, -1 takes it away.
  void Add(const Box& box, int64_t sign) {
    for (size_t ends = 0; ends < (size_t{1} << cut_.size()); ++ends) {
      Corner corner;
      corner.value = sign;
      for (size_t i = 0; i < cut_.size(); ++i) {
        corner.place[i] = box.offsets[cut_[i]];
        if (((ends >> i) & 1) == 0) continue;
        corner.place[i] += box.sizes[cut_[i]];
        corner.value = -corner.value;
      }
      corners_.push_back(corner);
    }
  }

  // The first place, in the order of elements, whose corners do not add up to 0. No other such
  // place is before it in all dimensions, so the sum says what is wrong with the element there.
  std::optional<Corner> FirstLeft() {
    std::sort(corners_.begin(), corners_.end(),
              [](const Corner& a, const Corner& b) { return a.place < b.place; });
    for (size_t i = 0; i < corners_.size();) {
      Corner sum;
      sum.place = corners_[i].place;
      for (; i < corners_.size() && corners_[i].place == sum.place; ++i) {
        sum.value += corners_[i].value;
      }
      if (sum.value != 0) return sum;
    }
    return std::nullopt;
  }

  // The element at a corner, in a tensor of so many dimensions.
  std::vector<int64_t> ElementAt(const Corner& corner, size_t dimensions) const {
    std::vector<int64_t> element(dimensions, 0);
    for (size_t i = 0; i < cut_.size(); ++i) element[cut_[i]] = corner.place[i];
    return element;
  }

 private:
  const std::vector<size_t> cut_;
  std::vector<Corner> corners_;
};

// How far apart consecutive elements of each dimension are.
std::vector<int64_t> StridesOf(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * sizes[i - 1];
  return strides;
}

}  // namespace

int64_t ElementsOf(const std::vector<int64_t>& sizes) {
  int64_t elements = 1;
  for (int64_t size : sizes) elements *= size;
  return elements;
}

Box WholeBox(const std::vector<int64_t>& shape) {
  return {std::vector<int64_t>(shape.size(), 0), shape};
}

bool IsWithin(const Box& box, const std::vector<int64_t>& shape) {
  if (box.offsets.size() != shape.size() || box.sizes.size() != shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t offset = box.offsets[i];
    const int64_t size = box.sizes[i];
    if (offset < 0 || size < 0 || offset > shape[i] || size > shape[i] - offset) return false;
  }
  return true;
}

bool IsRowRange(const Box& box, const std::vector<int64_t>& shape) {
  for (size_t i = 1; i < shape.size(); ++i) {
    if (box.sizes[i] != shape[i]) return false;
  }
  return true;
}

std::optional<Box> Intersection(const Box& a, const Box& b) {
  Box both;
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    const int64_t begin = std::max(a.offsets[i], b.offsets[i]);
    const int64_t end = std::min(a.offsets[i] + a.sizes[i], b.offsets[i] + b.sizes[i]);
    if (begin >= end) return std::nullopt;
    both.offsets.push_back(begin);
    both.sizes.push_back(end - begin);
  }
  return both;
}

std::optional<std::string> WhyNotCovered(const std::vector<int64_t>& shape,
                                         const std::vector<Box>& boxes) {
  std::vector<size_t> cut = CutDimensions(shape, boxes);
  if (cut.size() > kMaxCutDimensions) {
    return absl::StrCat("its slices cut it along ", cut.size(), " dimensions, of which at most ",
                        kMaxCutDimensions, " are allowed");
  }
  CornerSum sum(std::move(cut), boxes.size() + 1);
  for (const Box& box : boxes) sum.Add(box, 1);
  sum.Add(WholeBox(shape), -1);
  const std::optional<Corner> left = sum.FirstLeft();
  if (!left.has_value()) return std::nullopt;
  const std::string element =
      absl::StrCat("element [", absl::StrJoin(sum.ElementAt(*left, shape.size()), ", "), "]");
  if (left->value < 0) return absl::StrCat("none of its slices has ", element);
  return absl::StrCat(left->value + 1, " of its slices have ", element);
}

RunWalk::RunWalk(const Box& part, const Box& source, const Box& target) {
  const std::vector<int64_t> from_strides = StridesOf(source.sizes);
  const std::vector<int64_t> to_strides = StridesOf(target.sizes);
  for (size_t i = 0; i < part.sizes.size(); ++i) {
    from_ += (part.offsets[i] - source.offsets[i]) * from_strides[i];
    to_ += (part.offsets[i] - target.offsets[i]) * to_strides[i];
  }
  // From the last dimension on, runs grow while both arrays have no other elements between.
  size_t outer = part.sizes.size();
  bool whole = true;
  while (outer > 0 && whole) {
    --outer;
    const int64_t size = part.sizes[outer];
    elements_ *= size;
    whole = size == source.sizes[outer] && size == target.sizes[outer];
  }
  const auto count = static_cast<std::ptrdiff_t>(outer);
  sizes_.assign(part.sizes.begin(), part.sizes.begin() + count);
  from_strides_.assign(from_strides.begin(), from_strides.begin() + count);
  to_strides_.assign(to_strides.begin(), to_strides.begin() + count);
  index_.assign(outer, 0);
}

void RunWalk::Advance() {
  for (size_t i = index_.size(); i > 0; --i) {
    const size_t dimension = i - 1;
    if (++index_[dimension] < sizes_[dimension]) {
      from_ += from_strides_[dimension];
      to_ += to_strides_[dimension];
      return;
    }
    index_[dimension] = 0;
    from_ -= from_strides_[dimension] * (sizes_[dimension] - 1);
    to_ -= to_strides_[dimension] * (sizes_[dimension] - 1);
  }
  done_ = true;
}

}  // namespace paceline
