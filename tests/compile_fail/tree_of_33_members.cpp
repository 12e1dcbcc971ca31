// expect: stave: an aggregate of more than 32 members is not a tree: group members, or specialise stave::TreeTraits
#include <stave/stave.h>
using namespace stave;

struct Wide {
  Tensor t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, t15, t16, t17, t18, t19, t20, t21, t22, t23,
      t24, t25, t26, t27, t28, t29, t30, t31, t32;
};
auto y = tree_leaves(Wide{});
