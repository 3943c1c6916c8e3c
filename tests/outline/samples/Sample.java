package sample;

import java.util.List;

public class Sample<T> extends Object implements Runnable {
    private int size;

    public Sample(int size) {
        this.size = size;
    }

    @Override
    public void run() {
        Runnable local = new Runnable() {
            public void run() {
            }
        };
        local.run();
    }

    private static <A> List<A> pick(
            List<A> rows,
            int part) throws Exception {
        return rows;
    }

    interface Row {
        int read(int part);
    }

    enum Color {
        RED,
        GREEN
    }
}

record Pair(String name, int size) {
    int twice() {
        return size * 2;
    }
}

@interface Mark {
    String value();
}
